#include "sgl/program.h"

#include <algorithm>
#include <memory>

#include "gguf_blocks.h"

namespace sgl::test {
namespace {

constexpr int kLayers = 2;
constexpr int64_t kHidden = 64;
constexpr int64_t kInner = 96;
constexpr int64_t kVocab = 300;
constexpr int64_t kSlots = 700;
constexpr int64_t kMaxTokens = 256;

AttentionShape TinyShape(DType kv) {
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

// A two-layer decoder with every optional part somewhere: q/k norm, bias, sandwich norm, window.
struct Model {
  const Kernels& kernels;
  Random rng{42};
  Format format;
  AttentionShape shape[kLayers];
  Matrix embedding;
  std::vector<std::unique_ptr<Matrix>> q, k, v, o, gate, up, down;
  std::vector<std::vector<float>> norms;  // per layer 5, then final
  std::vector<float> bias, cos, sin;
  std::vector<std::vector<uint8_t>> pools;
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
      for (int i = 0; i < 2; ++i) pools.emplace_back(static_cast<size_t>(kSlots * kv_dim * 4), 0);
    }
    norms.push_back(Around1(kHidden));
    bias = rng.Floats(q_dim, 0.1f);
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
      const KvPool pool = {pools[2 * at].data(), pools[2 * at + 1].data(), kSlots};
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
      program.AddGatedLinear(normed, gate[at]->w, up[at]->w, Gate::kSilu, inner);
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

std::vector<int64_t> Prompt(int seed, int64_t n) {
  Random rng(static_cast<uint32_t>(seed));
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(rng.Int(kVocab));
  return ids;
}

void AgreesWithReference(const Kernels& kernels) {
  Model model(kernels, Format::kF32, DType::kF32);
  for (int64_t n : {1, 2, 70, 130}) {
    Driver d(model, 2, {Prompt(1, n)});
    const std::vector<float> logits = d.Step({{0, n}});
    const std::vector<double> want = model.Reference(Prompt(1, n));
    for (size_t i = 0; i < want.size(); ++i) CHECK_NEAR(logits[i], want[i], 2e-4);
  }
}

void QuantisedStaysNear(const Kernels& kernels) {
  Model model(kernels, Format::kQ8_0, DType::kF16);
  Driver d(model, 2, {Prompt(1, 70)});
  const std::vector<float> logits = d.Step({{0, 70}});
  const std::vector<double> want = model.Reference(Prompt(1, 70));
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (logits[i] - want[i]) * (logits[i] - want[i]);
    size += want[i] * want[i];
  }
  CHECK(error < 0.001 * size);
}

// The last token's logits have the same bits however the work was cut.
void Invariant(const Kernels& kernels, Format format, DType kv) {
  Model model(kernels, format, kv);
  constexpr int64_t kLength = 150;
  const auto want = [&] {
    Driver d(model, 1, {Prompt(1, kLength)});
    return d.Step({{0, kLength}});
  }();
  for (int threads : {1, 2, 3}) {
    {
      Driver d(model, threads, {Prompt(1, kLength)});
      d.Step({{0, 50}});
      d.Step({{0, 1}});
      d.Step({{0, 60}});
      CHECK(SameBits(want.data(), d.Step({{0, 39}}).data(), kVocab));
    }
    {
      // Last token decoded next to other rows; another row prefilled in the same step.
      Driver d(model, threads, {Prompt(2, 90), Prompt(1, kLength), Prompt(3, 80)});
      d.Step({{0, 20}, {1, 149}});
      const std::vector<float> all = d.Step({{0, 1}, {2, 77}, {1, 1}});
      CHECK(SameBits(want.data(), all.data() + 2 * kVocab, kVocab));
    }
    {
      Driver d(model, threads, {Prompt(1, kLength)});
      d.Step({{0, 100}});
      for (int i = 0; i < 49; ++i) d.Step({{0, 1}});
      CHECK(SameBits(want.data(), d.Step({{0, 1}}).data(), kVocab));
    }
  }
}

// Rows whose tables share their first 128 slots, computed once for all: same bits as apart.
void SharedPrefixes(const Kernels& kernels) {
  Model model(kernels, Format::kQ4_1, DType::kF16);
  constexpr size_t kRows = 12;
  std::vector<std::vector<int64_t>> prompts;
  std::vector<std::vector<float>> want;
  for (size_t r = 0; r < kRows; ++r) {
    prompts.push_back(Prompt(1, 128));
    const std::vector<int64_t> tail = Prompt(static_cast<int>(10 + r), 5);
    prompts.back().insert(prompts.back().end(), tail.begin(), tail.end());
    Driver alone(model, 1, {prompts.back()});
    want.push_back(alone.Step({{0, 133}}));
  }
  Driver d(model, 2, prompts);
  std::vector<Driver::Piece> pieces;
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t p = 0; p < 128; ++p) d.table[r * 400 + p] = static_cast<int32_t>(3 * p);
    for (size_t p = 128; p < 133; ++p) {
      d.table[r * 400 + p] = static_cast<int32_t>(400 + r * 5 + p - 128);
    }
    pieces.push_back({static_cast<int64_t>(r), 1});
  }
  d.Step({{0, 128}});
  d.length.assign(kRows, 128);
  std::vector<float> got;
  for (int step = 0; step < 5; ++step) got = d.Step(pieces);
  for (size_t r = 0; r < kRows; ++r) {
    CHECK(SameBits(want[r].data(), got.data() + r * kVocab, kVocab));
  }
  AttentionPlan plan;
  std::vector<int64_t> ones(kRows, 1), lengths(kRows, 133), rows(kRows);
  for (size_t r = 0; r < kRows; ++r) rows[r] = static_cast<int64_t>(r);
  plan.Build({kRows, ones.data(), lengths.data(), rows.data(), d.table.data(), 400}, 3);
  CHECK(plan.shared.size() == 2 + kRows);  // two whole blocks for all, one tail each
  CHECK(plan.shared[0].count == kRows && plan.shared[1].count == kRows);
}

void Candidates(const Kernels& kernels) {
  Model model(kernels, Format::kQ8_0, DType::kBf16);
  const std::vector<std::vector<int64_t>> prompts = {Prompt(4, 9), Prompt(5, 7), Prompt(6, 8)};
  const std::vector<Driver::Piece> pieces = {{0, 9}, {1, 7}, {2, 8}};
  Driver full(model, 2, prompts);
  const std::vector<float> logits = full.Step(pieces);
  for (int threads : {1, 3}) {
    for (int64_t full_rows : {0, 2}) {
      int64_t ids[3], top_ids[3 * 7];
      float values[3], top_values[3 * 7];
      std::vector<float> hidden(3 * kHidden);
      sgl::Step extra;
      extra.full_rows = full_rows;
      extra.best_ids = ids;
      extra.best_values = values;
      extra.top_k = 7;
      extra.top_ids = top_ids;
      extra.top_values = top_values;
      extra.hidden = hidden.data();
      Driver d(model, threads, prompts);
      const std::vector<float> some = d.Step(pieces, &extra);
      CHECK(SameBits(some.data(), logits.data(), full_rows * kVocab));
      for (size_t r = 0; r < 3; ++r) {
        std::vector<int64_t> order(kVocab);
        for (size_t i = 0; i < kVocab; ++i) order[i] = static_cast<int64_t>(i);
        const float* row = logits.data() + r * kVocab;
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return row[a] > row[b]; });
        CHECK(ids[r] == order[0] && values[r] == row[order[0]]);
        for (size_t j = 0; j < 7; ++j) {
          CHECK(top_ids[r * 7 + j] == order[j] && top_values[r * 7 + j] == row[order[j]]);
        }
        CHECK(hidden[r * kHidden] != 0);
      }
      extra.top_k = 0;
      Driver greedy(model, threads, prompts);
      greedy.Step(pieces, &extra);
      for (size_t r = 0; r < 3; ++r) CHECK(ids[r] == top_ids[r * 7]);
    }
  }
}

void RefusesBadSteps(const Kernels& kernels) {
  Model model(kernels, Format::kQ8_0, DType::kF16);
  ThreadPool pool(1);
  int64_t id = 5, position = 0, slot = 1, one = 1, row = 0;
  const std::vector<int32_t> table(400, 1);
  Step s;
  s.tokens = 1;
  s.input_ids = &id;
  s.positions = &position;
  s.out_slots = &slot;
  s.rows = {1, &one, &one, &row, table.data(), 400};
  CHECK(model.program.Run(pool, s).empty());
  id = kVocab;
  CHECK(model.program.Run(pool, s).find("token id 300") == 0);
  id = 5;
  slot = kSlots;
  CHECK(model.program.Run(pool, s).find("slot 700") != std::string::npos);
  slot = 1;
  s.tokens = 2;
  CHECK(model.program.Run(pool, s).find("rows hold 1 tokens") == 0);
}

}  // namespace
}  // namespace sgl::test

int main() {
  using namespace sgl::test;
  for (const sgl::Kernels* kernels : AllKernels()) {
    std::printf("%s\n", kernels->name);
    AgreesWithReference(*kernels);
    QuantisedStaysNear(*kernels);
    Invariant(*kernels, sgl::Format::kQ4_1, sgl::DType::kF16);
    Invariant(*kernels, sgl::Format::kBf16, sgl::DType::kBf16);
    SharedPrefixes(*kernels);
    Candidates(*kernels);
    RefusesBadSteps(*kernels);
  }
}
