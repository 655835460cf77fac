// Recorded operations on rows and weights: embedding, norm, linear, gated linear.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "program_state.h"

namespace sgl {
namespace {

struct EmbeddingOp : Program::Op {
  const char* name() const override { return "embedding"; }
  PackedWeight table;
  GgufType type = GgufType::kF32;
  const uint8_t* rows = nullptr;  // raw rows instead of the packed table
  int64_t width = 0;
  float scale = 1;
  BufferId out = kNone;

  void Run(Team& team, Program::State& s) const override {
    team.For(s.step->tokens, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        float* x = s.Floats(out, t);
        const int64_t id = s.step->input_ids[t];
        if (rows != nullptr) {
          DequantizeGgufRow(type, rows + id * GgufRowBytes(type, width), width, x);
        } else {
          UnpackRow(table, id, x);
        }
        for (int64_t i = 0; scale != 1 && i < width; ++i) x[i] *= scale;
      }
    });
  }
};

struct NormOp : Program::Op {
  const char* name() const override { return "norm"; }
  BufferId x = kNone;
  BufferId addend = kNone;
  NormSpec addend_norm;
  NormSpec norm;
  Activations out;

  void Run(Team& team, Program::State& s) const override {
    team.For(s.step->tokens, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) Token(s, team.rank(), t);
    });
  }

  bool IsTokenwise() const override { return true; }

  void Token(Program::State& s, int rank, int64_t t) const override {
    const int64_t width = s.Width(x);
    float* row = s.Floats(x, t);
    if (addend != kNone) {
      float* add = s.Floats(addend, t);
      if (addend_norm.weight != nullptr) {
        s.kernels->rms_norm(add, addend_norm.weight, addend_norm.eps, width, add);
      }
      s.kernels->add_scaled(add, 1.0f, width, row);
    }
    float* spare = s.scratch[static_cast<size_t>(rank)].floats.as<float>();
    float* normed = out.floats != kNone ? s.Floats(out.floats, t) : spare;
    s.kernels->rms_norm(row, norm.weight, norm.eps, width, normed);
    s.Emit(normed, width, out, t);
  }
};

// Tasks of a matmul: blocks of rows x pieces of tiles, tiles of all parts counted through.
struct LinearOp : Program::Op {
  const char* name() const override { return "linear"; }
  Activations in;
  std::vector<LinearPart> parts;
  BufferId out = kNone;
  bool accumulate = false;

  void Run(Team& team, Program::State& s) const override {
    Run(team, s, [] {});
  }

  bool RunWithNext(Team& team, Program::State& s, const Op& next) const override {
    Run(team, s, [&] { next.Token(s, team.rank(), 0); });
    return true;
  }

  template <class Tail>
  void Run(Team& team, Program::State& s, Tail&& tail) const {
    int64_t tiles = 0;
    int64_t bytes = 0;
    for (const LinearPart& p : parts) {
      tiles += p.weight.tiles();
      bytes += p.weight.tiles() * p.weight.tile_bytes;
    }
    const int64_t row_blocks = CeilDiv(s.step->tokens, kRowBlock);
    const int64_t count = tiles * row_blocks;
    team.For(
        count, StreamGrain(count, bytes, s.step->tokens, team.size()),
        [&](int64_t begin, int64_t end) { Pieces(s, tiles, begin, end); }, tail);
  }

  // Tasks [begin, end), as runs of tiles inside one part and one block of rows.
  void Pieces(Program::State& s, int64_t tiles, int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t row = begin / tiles * kRowBlock;
      const int64_t rows = std::min(kRowBlock, s.step->tokens - row);
      int64_t tile = begin % tiles;
      size_t part = 0;
      while (tile >= parts[part].weight.tiles()) tile -= parts[part++].weight.tiles();
      const LinearPart& p = parts[part];
      const int64_t count = std::min(end - begin, p.weight.tiles() - tile);
      MatmulArgs a = s.Operands(p.weight, in, row);
      a.out = s.Floats(out, row) + p.column;
      a.out_stride = s.Width(out);
      a.bias = p.bias;
      a.accumulate = accumulate;
      s.kernels->matmul(a, 0, rows, tile, tile + count);
      begin += count;
    }
  }
};

constexpr int64_t kGatedColumns = 32;  // one block of int8 activations
constexpr int64_t kGatedRows = 64;

struct GatedLinearOp : Program::Op {
  const char* name() const override { return "gated_linear"; }
  Activations in;
  LinearPart gate;
  LinearPart up;
  Gate kind = Gate::kSilu;
  Activations out;

  void Run(Team& team, Program::State& s) const override {
    const int64_t columns = CeilDiv(gate.weight.n, kGatedColumns);
    const int64_t row_blocks = CeilDiv(s.step->tokens, kGatedRows);
    const int64_t bytes = 2 * gate.weight.tiles() * gate.weight.tile_bytes;
    const int64_t grain =
        StreamGrain(columns * row_blocks, bytes, s.step->tokens, team.size());
    team.For(columns * row_blocks, grain, [&](int64_t begin, int64_t end) {
      float* spare = s.scratch[static_cast<size_t>(team.rank())].floats.as<float>();
      for (int64_t i = begin; i < end; ++i) {
        Piece(s, i % columns * kGatedColumns, i / columns * kGatedRows, spare);
      }
    });
  }

  // Columns [column, column + 32) of rows [row, row + 32): both products stay in the cache.
  void Piece(Program::State& s, int64_t column, int64_t row, float* spare) const {
    const int64_t rows = std::min(kGatedRows, s.step->tokens - row);
    const int64_t columns = std::min(kGatedColumns, gate.weight.n - column);
    float* g = spare;
    float* u = spare + kGatedRows * kGatedColumns;
    Product(s, gate, row, rows, column, columns, g);
    Product(s, up, row, rows, column, columns, u);
    for (int64_t r = 0; r < rows; ++r) {
      float* x = g + r * kGatedColumns;
      s.kernels->glu(x, u + r * kGatedColumns, kind, columns, x);
      if (out.floats != kNone) {
        s.kernels->store_as(x, columns, DType::kF32, s.Floats(out.floats, row + r) + column);
      }
      if (out.blocks != kNone) {
        s.Quantize(x, out.blocks, row + r, column, columns);
      }
    }
  }

  void Product(Program::State& s, const LinearPart& part, int64_t row, int64_t rows, int64_t column,
               int64_t columns, float* to) const {
    const PackedWeight& w = part.weight;
    MatmulArgs a = s.Operands(w, in, row);
    a.out = to;
    a.bias = part.bias;
    a.out_column = column;
    a.out_stride = kGatedColumns;
    s.kernels->matmul(a, 0, rows, column / w.nr, CeilDiv(column + columns, w.nr));
  }
};

}  // namespace

void Program::AddEmbedding(const PackedWeight& table, float scale, BufferId out) {
  if (table.n < state_->vocab || table.data == nullptr) {
    throw std::invalid_argument("add_embedding: the table has " + std::to_string(table.n) +
                                " rows, the vocabulary " + std::to_string(state_->vocab));
  }
  state_->NeedFloats("add_embedding", out, table.k);
  auto op = std::make_unique<EmbeddingOp>();
  op->table = table;
  op->width = table.k;
  op->scale = scale;
  op->out = out;
  ops_.push_back(std::move(op));
}

void Program::AddGgufEmbedding(GgufType type, const void* rows, int64_t width, float scale,
                               BufferId out) {
  if (GgufRowBytes(type, width) < 0) {
    throw std::invalid_argument("add_embedding: " + std::to_string(width) +
                                " values are no row of that type");
  }
  state_->NeedFloats("add_embedding", out, width);
  auto op = std::make_unique<EmbeddingOp>();
  op->type = type;
  op->rows = static_cast<const uint8_t*>(rows);
  op->width = width;
  op->scale = scale;
  op->out = out;
  ops_.push_back(std::move(op));
}

void Program::AddNorm(BufferId x, BufferId addend, NormSpec addend_norm, NormSpec norm,
                      Activations out) {
  state_->NeedFloats("add_norm", x, -1);
  const int64_t width = state_->Width(x);
  if (addend != kNone) state_->NeedFloats("add_norm", addend, width);
  state_->NeedForms("add_norm", out, width, addend == kNone);
  auto op = std::make_unique<NormOp>();
  op->x = x;
  op->addend = addend;
  op->addend_norm = addend_norm;
  op->norm = norm;
  op->out = out;
  state_->scratch_floats = std::max(state_->scratch_floats, width);
  ops_.push_back(std::move(op));
}

void Program::AddLinear(Activations in, std::vector<LinearPart> parts, BufferId out,
                        bool accumulate) {
  state_->NeedFloats("add_linear", out, -1);
  for (const LinearPart& p : parts) {
    state_->NeedOperand("add_linear", p.weight, in);
    if (p.column < 0 || p.column + p.weight.n > state_->Width(out)) {
      throw std::invalid_argument("add_linear: columns " + std::to_string(p.column) + " to " +
                                  std::to_string(p.column + p.weight.n) + " are not in width " +
                                  std::to_string(state_->Width(out)));
    }
  }
  auto op = std::make_unique<LinearOp>();
  op->in = in;
  op->parts = std::move(parts);
  op->out = out;
  op->accumulate = accumulate;
  ops_.push_back(std::move(op));
}

void Program::AddGatedLinear(Activations in, const LinearPart& gate, const LinearPart& up,
                             Gate kind, Activations out) {
  state_->NeedOperand("add_gated_linear", gate.weight, in);
  state_->NeedOperand("add_gated_linear", up.weight, in);
  if (gate.weight.n != up.weight.n) {
    throw std::invalid_argument("add_gated_linear: gate has " + std::to_string(gate.weight.n) +
                                " rows, up " + std::to_string(up.weight.n));
  }
  state_->NeedForms("add_gated_linear", out, gate.weight.n, true);
  auto op = std::make_unique<GatedLinearOp>();
  op->in = in;
  op->gate = gate;
  op->up = up;
  op->kind = kind;
  op->out = out;
  state_->scratch_floats =
      std::max(state_->scratch_floats, int64_t{2} * kGatedRows * kGatedColumns);
  ops_.push_back(std::move(op));
}

}  // namespace sgl
