// Recorded operation: final norm of the output tokens, logits, argmax and top-k candidates taken
// while a piece of logits is still in the cache.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "program_state.h"
#include "sgl/masking.h"

namespace sgl {
namespace {

constexpr int64_t kHeadColumns = 256;  // logits of one piece: a fixed piece of the vocabulary
constexpr int64_t kHeadRows = 32;

struct HeadOp : Program::Op {
  const char* name() const override { return "head"; }
  BufferId x = kNone;
  NormSpec norm;
  PackedWeight weight;
  float softcap = 0;
  // The normed output tokens, packed to the front. Blocks are centred: rounding them is the largest
  // single error of a model with 8-bit embeddings, and the head alone sees few tokens.
  Activations in;

  void Run(Team& team, Program::State& s) const override {
    const Step& step = *s.step;
    if (step.outputs == 0) return;
    const int64_t width = s.Width(x);
    team.For(step.outputs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* normed = s.Floats(in.floats, i);
        const float* row = s.Floats(x, step.output_tokens[i]);
        s.kernels->rms_norm(row, norm.weight, norm.eps, width, normed);
        if (in.blocks != kNone) s.Quantize(normed, in.blocks, i, 0, width);
        if (step.hidden != nullptr) std::copy(normed, normed + width, step.hidden + i * width);
      }
    });
    const int64_t pieces = CeilDiv(weight.n, kHeadColumns);
    const int64_t row_blocks =
        CeilDiv(step.full_rows, kHeadRows) + CeilDiv(step.outputs - step.full_rows, kHeadRows);
    team.For(pieces * row_blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Piece(s, team.rank(), i / pieces, i % pieces * kHeadColumns);
      }
    });
    team.For(step.outputs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Gather(s, i);
    });
  }

  void Piece(Program::State& s, int rank, int64_t row_block, int64_t column) const {
    const Step& step = *s.step;
    const int64_t full_blocks = CeilDiv(step.full_rows, kHeadRows);
    const bool full = row_block < full_blocks;
    const int64_t row =
        full ? row_block * kHeadRows : step.full_rows + (row_block - full_blocks) * kHeadRows;
    const int64_t rows = std::min(kHeadRows, (full ? step.full_rows : step.outputs) - row);
    const int64_t columns = std::min(kHeadColumns, weight.n - column);
    if (!full && Forbidden(step, row, rows, column, columns)) return;
    MatmulArgs a = s.Operands(weight, in, row);
    float* spare = s.scratch[static_cast<size_t>(rank)].floats.as<float>();
    float* logits = full ? step.logits + row * weight.n + column : spare;
    a.out_stride = full ? weight.n : kHeadColumns;
    a.out = logits;
    a.out_column = column;
    s.kernels->matmul(a, 0, rows, column / weight.nr, CeilDiv(column + columns, weight.nr));
    for (int64_t r = 0; r < rows; ++r) {
      float* values = logits + r * a.out_stride;
      if (softcap > 0) s.kernels->softcap(values, columns, softcap);
      if (!full && MaskOf(step, row + r) != nullptr) {
        MaskPiece(values, column, columns, MaskOf(step, row + r), step.mask_words);
      }
      if (step.top_k > 0) {
        KeepTop(s, rank, row + r, values, column, columns);
      } else if (step.best_ids != nullptr) {
        KeepBest(s, rank, row + r, values, column, columns);
      }
    }
  }

  static const int32_t* MaskOf(const Step& step, int64_t row) {
    return step.masks == nullptr ? nullptr : step.masks[row];
  }

  // Whether none of the rows may choose a token of the piece: its product is not needed then.
  static bool Forbidden(const Step& step, int64_t row, int64_t rows, int64_t column,
                        int64_t columns) {
    for (int64_t r = row; r < row + rows; ++r) {
      const int32_t* mask = MaskOf(step, r);
      if (mask == nullptr || !ForbidsPiece(column, columns, mask, step.mask_words)) return false;
    }
    return true;
  }

  void KeepBest(Program::State& s, int rank, int64_t row, const float* values, int64_t column,
                int64_t columns) const {
    Program::State::Scratch& own = s.scratch[static_cast<size_t>(rank)];
    Candidate c;
    c.id = column + s.kernels->argmax(values, columns, &c.value);
    Candidate& best = own.best[static_cast<size_t>(row)];
    int64_t& found = own.found[static_cast<size_t>(row)];
    if (found == 0 || Better(c, best)) best = c;
    found = 1;
  }

  void KeepTop(Program::State& s, int rank, int64_t row, const float* values, int64_t column,
               int64_t columns) const {
    const int64_t k = s.step->top_k;
    Program::State::Scratch& own = s.scratch[static_cast<size_t>(rank)];
    Candidate* list = own.best.data() + row * k;
    int64_t& found = own.found[static_cast<size_t>(row)];
    // A full list rejects most pieces by one vector comparison. Equal values may still enter by a
    // lower id, as pieces come in any order.
    if (found == k) {
      const float least = list[k - 1].value;
      const float below = std::nextafter(least, -std::numeric_limits<float>::infinity());
      if (!s.kernels->any_greater(values, columns, below)) return;
    }
    for (int64_t c = 0; c < columns; ++c) {
      Insert({values[c], column + c}, k, list, found);
    }
  }

  static void Insert(Candidate c, int64_t k, Candidate* list, int64_t& found) {
    if (!(c.value == c.value)) return;  // NaN has no rank
    if (found == k && !Better(c, list[k - 1])) return;
    int64_t at = found < k ? found++ : k - 1;
    for (; at > 0 && Better(c, list[at - 1]); --at) list[at] = list[at - 1];
    list[at] = c;
  }

  // Joins what the threads found for one output.
  void Gather(Program::State& s, int64_t i) const {
    const Step& step = *s.step;
    if (step.top_k == 0 && step.best_ids == nullptr) return;
    const int64_t k = std::max<int64_t>(1, step.top_k);
    std::vector<Candidate> list(static_cast<size_t>(k),
                                {-std::numeric_limits<float>::infinity(), 0});
    int64_t found = 0;
    for (const Program::State::Scratch& own : s.scratch) {
      const Candidate* theirs = own.best.data() + i * k;
      for (int64_t j = 0; j < own.found[static_cast<size_t>(i)]; ++j) {
        Insert(theirs[j], k, list.data(), found);
      }
    }
    for (int64_t j = 0; j < step.top_k; ++j) {
      step.top_ids[i * k + j] = list[static_cast<size_t>(j)].id;
      step.top_values[i * k + j] = list[static_cast<size_t>(j)].value;
    }
    if (step.best_ids != nullptr) {
      step.best_ids[i] = list[0].id;
      step.best_values[i] = list[0].value;
    }
  }
};

}  // namespace

void Program::AddHead(BufferId x, NormSpec norm, const PackedWeight& weight, float softcap) {
  state_->NeedFloats("add_head", x, weight.k);
  if (weight.n != state_->vocab || weight.nr != kernels_.nr || weight.data == nullptr) {
    throw std::invalid_argument("add_head: the weight has " + std::to_string(weight.n) +
                                " rows, the vocabulary " + std::to_string(state_->vocab) +
                                "; or it was packed for another instruction set");
  }
  auto op = std::make_unique<HeadOp>();
  op->x = x;
  op->norm = norm;
  op->weight = weight;
  op->softcap = softcap;
  op->in.floats = AddFloats(weight.k);
  if (!IsDense(weight.format)) op->in.blocks = AddBlocks(weight.k, true);
  state_->scratch_floats = std::max(state_->scratch_floats, kHeadRows * kHeadColumns);
  ops_.push_back(std::move(op));
}

}  // namespace sgl
