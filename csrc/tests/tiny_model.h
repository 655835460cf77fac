// A two-layer decoder with every optional part somewhere, its double-precision reference, and a
// driver that feeds it steps.
#pragma once

#include <algorithm>
#include <memory>

#include "gguf_blocks.h"
#include "sgl/program.h"

namespace sgl::test {

constexpr int kLayers = 2;
constexpr int64_t kHidden = 64;
constexpr int64_t kInner = 96;
constexpr int64_t kVocab = 300;
constexpr int64_t kSlots = 700;
constexpr int64_t kMaxTokens = 256;

inline AttentionShape TinyShape(DType kv) {
  AttentionShape s;
  s.heads = 6;
  s.kv_heads = 2;
  s.head_dim = 16;
  s.kv_type = kv;
  s.scale = 0.25f;
  return s;
}

struct Matrix {
  int64_t n, k;
  std::vector<float> values;
  Aligned bytes;
  PackedWeight w;

  Matrix(int64_t rows, int64_t depth, Format format, int nr, Random& rng)
      : n(rows),
        k(depth),
        values(rng.Floats(rows * depth, 0.15f)),
        bytes(PackedBytes(PackedLayout(format, rows, depth, nr))),
        w(PackedLayout(format, rows, depth, nr)) {
    if (format == Format::kF32) {
      PackGguf(GgufType::kF32, values.data(), w, 0, w.tiles(), bytes.data());
    } else if (format == Format::kBf16) {
      std::vector<uint16_t> half;
      for (float v : values) half.push_back(FloatToBf16(v));
      PackGguf(GgufType::kBf16, half.data(), w, 0, w.tiles(), bytes.data());
    } else {
      PackQuantized(values.data(), w, 0, w.tiles(), bytes.data());
    }
    w.data = bytes.data();
  }

  std::vector<double> Times(const std::vector<double>& x) const {
    std::vector<double> out(static_cast<size_t>(n));
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t i = 0; i < k; ++i) {
        out[static_cast<size_t>(r)] +=
            x[static_cast<size_t>(i)] * values[static_cast<size_t>(r * k + i)];
      }
    }
    return out;
  }
};

// Layer 1 has a window and normalises what it adds; both have q/k norms and biases on q and on the
// gate.
struct Model {
  const Kernels& kernels;
  Random rng{42};
  Format format;
  AttentionShape shape[kLayers];
  Matrix embedding;
  std::vector<std::unique_ptr<Matrix>> q, k, v, o, gate, up, down;
  std::vector<std::vector<float>> norms;  // per layer 5, then final
  std::vector<float> bias, mlp_bias, cos, sin;
  std::vector<std::vector<uint8_t>> pools;
  std::vector<std::vector<float>> scales;
  Program program;

  Model(const Kernels& kern, Format f, DType kv)
      : kernels(kern),
        format(f),
        shape{TinyShape(kv), TinyShape(kv)},
        embedding(kVocab, kHidden, f, kern.nr, rng),
        program(kern, kMaxTokens, kVocab) {
    shape[1].window = 50;
    const AttentionShape& s = shape[0];
    const int64_t q_dim = s.heads * s.head_dim;
    const int64_t kv_dim = s.kv_heads * s.head_dim;
    for (int layer = 0; layer < kLayers; ++layer) {
      q.push_back(Make(q_dim, kHidden));
      k.push_back(Make(kv_dim, kHidden));
      v.push_back(Make(kv_dim, kHidden));
      o.push_back(Make(kHidden, q_dim));
      gate.push_back(Make(kInner, kHidden));
      up.push_back(Make(kInner, kHidden));
      down.push_back(Make(kHidden, kInner));
      for (int64_t width : {kHidden, kHidden, kHidden, int64_t{16}, int64_t{16}}) {
        norms.push_back(Around1(width));
      }
      for (int i = 0; i < 2; ++i) {
        pools.emplace_back(static_cast<size_t>(kSlots * kv_dim * 4), 0);
        scales.emplace_back(static_cast<size_t>(kSlots * s.kv_heads), 0.0f);
      }
    }
    norms.push_back(Around1(kHidden));
    bias = rng.Floats(q_dim, 0.1f);
    mlp_bias = rng.Floats(kInner, 0.1f);
    for (int p = 0; p < 400; ++p) {
      for (int i = 0; i < 8; ++i) {
        cos.push_back(std::cos(static_cast<float>(p) * std::pow(0.3f, static_cast<float>(i))));
        sin.push_back(std::sin(static_cast<float>(p) * std::pow(0.3f, static_cast<float>(i))));
      }
    }
    Record();
  }

  std::unique_ptr<Matrix> Make(int64_t n, int64_t depth) {
    return std::make_unique<Matrix>(n, depth, format, kernels.nr, rng);
  }

  std::vector<float> Around1(int64_t n) {
    std::vector<float> w = rng.Floats(n, 0.1f);
    for (float& x : w) x += 1;
    return w;
  }

  NormSpec Norm(int layer, int i) const {
    return {norms[static_cast<size_t>(layer * 5 + i)].data(), 1e-5f};
  }

  RopeArgs Rope() const {
    RopeArgs r;
    r.cos = cos.data();
    r.sin = sin.data();
    r.positions = 400;
    r.rotary_dim = 16;
    return r;
  }

  void Record() {
    const int64_t q_dim = shape[0].heads * shape[0].head_dim;
    const int64_t kv_dim = shape[0].kv_heads * shape[0].head_dim;
    const BufferId x = program.AddFloats(kHidden);
    const BufferId tmp = program.AddFloats(kHidden);
    const BufferId qkv = program.AddFloats(q_dim + 2 * kv_dim);
    const Activations normed = {program.AddFloats(kHidden), program.AddBlocks(kHidden)};
    const Activations attended = {program.AddFloats(q_dim), program.AddBlocks(q_dim)};
    const Activations inner = {program.AddFloats(kInner), program.AddBlocks(kInner)};
    program.AddEmbedding(embedding.w, 2.0f, x);
    for (int l = 0; l < kLayers; ++l) {
      const auto at = static_cast<size_t>(l);
      const KvPool pool = {pools[2 * at].data(), pools[2 * at + 1].data(), scales[2 * at].data(),
                           scales[2 * at + 1].data(), kSlots};
      // Layer 0 adds straight to the residual stream, layer 1 normalises first.
      program.AddNorm(x, kNone, {}, Norm(l, 0), normed);
      program.AddLinear(normed,
                        {{q[at]->w, bias.data(), 0},
                         {k[at]->w, nullptr, q_dim},
                         {v[at]->w, nullptr, q_dim + kv_dim}},
                        qkv, false);
      program.AddRopeStore(qkv, shape[l], Norm(l, 3), Norm(l, 4), Rope(), pool);
      program.AddAttention(qkv, shape[l], pool, attended);
      program.AddLinear(attended, {{o[at]->w, nullptr, 0}}, l == 0 ? x : tmp, l == 0);
      program.AddNorm(x, l == 0 ? kNone : tmp, Norm(l, 2), Norm(l, 1), normed);
      program.AddGatedLinear(normed, {gate[at]->w, mlp_bias.data(), 0}, {up[at]->w, nullptr, 0},
                             Gate::kSilu, inner);
      program.AddLinear(inner, {{down[at]->w, nullptr, 0}}, x, true);
    }
    program.AddHead(x, {norms.back().data(), 1e-5f}, embedding.w, 20.0f);
  }

  std::vector<double> RefNorm(const std::vector<double>& x, const NormSpec& n) const {
    double squares = 0;
    for (double v2 : x) squares += v2 * v2;
    std::vector<double> out;
    for (size_t i = 0; i < x.size(); ++i) {
      out.push_back(x[i] / std::sqrt(squares / static_cast<double>(x.size()) + n.eps) *
                    n.weight[i]);
    }
    return out;
  }

  std::vector<double> RefHead(const std::vector<double>& all, size_t first, const NormSpec* norm,
                              int64_t position) const {
    std::vector<double> h(all.begin() + static_cast<int64_t>(first),
                          all.begin() + static_cast<int64_t>(first) + 16);
    if (norm == nullptr) return h;
    h = RefNorm(h, *norm);
    for (size_t i = 0; i < 8; ++i) {
      const double c = cos[static_cast<size_t>(position * 8) + i];
      const double s = sin[static_cast<size_t>(position * 8) + i];
      const double a = h[i];
      const double b = h[i + 8];
      h[i] = a * c - b * s;
      h[i + 8] = b * c + a * s;
    }
    return h;
  }

  // Logits of the last token, in double precision from the float weights.
  std::vector<double> Reference(const std::vector<int64_t>& ids) const {
    std::vector<std::vector<double>> x;
    for (int64_t id : ids) {
      x.emplace_back();
      for (int64_t i = 0; i < kHidden; ++i) {
        x.back().push_back(2.0 * embedding.values[static_cast<size_t>(id * kHidden + i)]);
      }
    }
    for (int l = 0; l < kLayers; ++l) RefLayer(l, x);
    std::vector<double> logits = embedding.Times(RefNorm(x.back(), {norms.back().data(), 1e-5f}));
    for (double& v2 : logits) v2 = 20 * std::tanh(v2 / 20);
    return logits;
  }

  void RefLayer(int l, std::vector<std::vector<double>>& x) const {
    const auto at = static_cast<size_t>(l);
    std::vector<std::vector<double>> keys, values;
    for (size_t t = 0; t < x.size(); ++t) {
      const std::vector<double> n = RefNorm(x[t], Norm(l, 0));
      std::vector<double> queries = q[at]->Times(n);
      for (size_t i = 0; i < queries.size(); ++i) queries[i] += bias[i];
      keys.push_back(k[at]->Times(n));
      values.push_back(v[at]->Times(n));
      const NormSpec k_norm = Norm(l, 4);
      const NormSpec q_norm = Norm(l, 3);
      std::vector<double> rotated;
      for (size_t h = 0; h < 2; ++h) {
        const auto head = RefHead(keys.back(), h * 16, &k_norm, static_cast<int64_t>(t));
        rotated.insert(rotated.end(), head.begin(), head.end());
      }
      keys.back() = rotated;
      std::vector<double> attended;
      for (size_t h = 0; h < 6; ++h) {
        const auto query = RefHead(queries, h * 16, &q_norm, static_cast<int64_t>(t));
        const size_t window = static_cast<size_t>(shape[l].window);
        const size_t first = window > 0 && t + 1 > window ? t + 1 - window : 0;
        std::vector<double> out(16);
        double sum = 0;
        for (size_t j = first; j <= t; ++j) {
          double dot = 0;
          for (size_t d = 0; d < 16; ++d) dot += query[d] * keys[j][h / 3 * 16 + d];
          const double w = std::exp(dot * 0.25);
          sum += w;
          for (size_t d = 0; d < 16; ++d) out[d] += w * values[j][h / 3 * 16 + d];
        }
        for (double d : out) attended.push_back(d / sum);
      }
      std::vector<double> projected = o[at]->Times(attended);
      if (l == 1) projected = RefNorm(projected, Norm(l, 2));
      for (size_t i = 0; i < projected.size(); ++i) x[t][i] += projected[i];
      const std::vector<double> m = RefNorm(x[t], Norm(l, 1));
      std::vector<double> g = gate[at]->Times(m);
      for (size_t i = 0; i < g.size(); ++i) g[i] += mlp_bias[i];
      const std::vector<double> u = up[at]->Times(m);
      for (size_t i = 0; i < g.size(); ++i) g[i] = g[i] / (1 + std::exp(-g[i])) * u[i];
      const std::vector<double> d = down[at]->Times(g);
      for (size_t i = 0; i < d.size(); ++i) x[t][i] += d[i];
    }
  }
};

// Requests on a slot table; each step computes the next tokens of some rows.
struct Driver {
  Model& model;
  ThreadPool pool;
  std::vector<int32_t> table;
  std::vector<int64_t> length;
  std::vector<std::vector<int64_t>> ids;

  Driver(Model& m, int threads, std::vector<std::vector<int64_t>> prompts)
      : model(m),
        pool(threads),
        table(prompts.size() * 400),
        length(prompts.size()),
        ids(std::move(prompts)) {
    // Row r's position p lies at a scattered slot of its own.
    for (size_t r = 0; r < ids.size(); ++r) {
      for (size_t p = 0; p < 400; ++p) {
        table[r * 400 + p] = static_cast<int32_t>((p * ids.size() + r) * 13 % 677);
      }
    }
  }

  struct Piece {
    int64_t row;
    int64_t count;
  };

  // Logits of the last token of each piece, [pieces, vocab].
  std::vector<float> Step(const std::vector<Piece>& pieces, sgl::Step* extra = nullptr) {
    std::vector<int64_t> input, positions, slots, query_lens, seq_lens, rows, outputs;
    for (const Piece& p : pieces) {
      const auto r = static_cast<size_t>(p.row);
      for (int64_t i = 0; i < p.count; ++i) {
        const auto at = static_cast<size_t>(length[r]);
        input.push_back(ids[r][at]);
        positions.push_back(length[r]);
        slots.push_back(table[r * 400 + at]);
        ++length[r];
      }
      query_lens.push_back(p.count);
      seq_lens.push_back(length[r]);
      rows.push_back(p.row);
      outputs.push_back(static_cast<int64_t>(input.size()) - 1);
    }
    std::vector<float> logits(pieces.size() * kVocab);
    sgl::Step s = extra == nullptr ? sgl::Step() : *extra;
    s.tokens = static_cast<int64_t>(input.size());
    s.input_ids = input.data();
    s.positions = positions.data();
    s.out_slots = slots.data();
    s.rows = {static_cast<int64_t>(pieces.size()),
              query_lens.data(),
              seq_lens.data(),
              rows.data(),
              table.data(),
              400};
    s.outputs = static_cast<int64_t>(outputs.size());
    s.output_tokens = outputs.data();
    if (extra == nullptr) s.full_rows = s.outputs;
    s.logits = logits.data();
    const std::string error = model.program.Run(pool, s);
    if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str());
    CHECK(error.empty());
    return logits;
  }
};

}  // namespace sgl::test
