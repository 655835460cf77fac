// What operations of a program share while it runs: buffers, per-thread scratch, the step.
#pragma once

#include <memory>
#include <vector>

#include "sgl/program.h"

namespace sgl {

// 64-byte aligned storage that grows and never copies.
class Arena {
 public:
  void Reserve(int64_t bytes);
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t, Free> data_;
  int64_t bytes_ = 0;
};

struct Candidate {
  float value;
  int64_t id;
};

// Higher value first, then lower id: a total order, so results don't depend on the order of work.
inline bool Better(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

struct Program::State {
  struct Buffer {
    int64_t width;
    bool blocks;
    Arena data;
    BufferId middles;  // of centred blocks, else kNone
  };
  // One thread's own memory.
  struct Scratch {
    Arena floats;
    std::vector<Candidate> best;  // [outputs, max(1, top_k)] sorted
    std::vector<int64_t> found;   // [outputs] how many candidates are filled
  };

  const Kernels* kernels = nullptr;
  int64_t max_tokens = 0;
  int64_t vocab = 0;
  std::vector<Buffer> buffers;
  std::vector<Scratch> scratch;  // per thread
  Arena partials;                // [plan.partials, heads, head_dim + 2]
  AttentionPlan plan;
  const Step* step = nullptr;
  bool profile = false;
  std::vector<double> times;  // [ops] seconds
  int64_t heads_per_kv = 1;
  int64_t max_slots = INT32_MAX;      // smallest pool
  int64_t max_positions = INT64_MAX;  // shortest rotary table
  int64_t partial_floats = 0;         // per block partial, all heads: the largest over layers
  int64_t scratch_floats = 0;         // per thread

  float* Floats(BufferId id, int64_t token) const {
    const Buffer& b = buffers[static_cast<size_t>(id)];
    return b.data.as<float>() + token * b.width;
  }
  QBlock* Blocks(BufferId id, int64_t token) const {
    const Buffer& b = buffers[static_cast<size_t>(id)];
    return b.data.as<QBlock>() + token * (b.width / 32);
  }
  // Columns [column, column + count) of row `token` as int8 blocks, around their middles if the
  // buffer keeps them. Both are multiples of 32.
  void Quantize(const float* x, BufferId blocks, int64_t token, int64_t column,
                int64_t count) const;
  int64_t Width(BufferId id) const { return buffers[static_cast<size_t>(id)].width; }

  // Of recording: throw std::invalid_argument unless the operand fits `op`. A width of -1 is any.
  void NeedFloats(const char* op, BufferId id, int64_t width) const { Need(op, id, false, width); }
  // The forms that are given (at least one where `some`).
  void NeedForms(const char* op, Activations a, int64_t width, bool some) const;
  // The form that w needs, of width w.k; and w itself.
  void NeedOperand(const char* op, const PackedWeight& w, Activations in) const;
  void NeedShape(const char* op, BufferId qkv, const AttentionShape& shape,
                 const KvPool& pool) const;
  void Need(const char* op, BufferId id, bool blocks, int64_t width) const;

  // Matmul operands of `in`, in the form that w needs, from row `token` on.
  MatmulArgs Operands(const PackedWeight& w, Activations in, int64_t token) const;
  // Writes one row in the forms wanted; `row` may be the float buffer's own row.
  void Emit(const float* row, int64_t width, Activations out, int64_t token) const;
};

// One recorded operation. Run is called by every thread of the team.
struct Program::Op {
  virtual ~Op() = default;
  virtual const char* name() const = 0;
  virtual void Run(Team& team, State& state) const = 0;

  // Whether it does the same for each token alone, as Token does it.
  virtual bool IsTokenwise() const { return false; }
  virtual void Token(State& state, int rank, int64_t token) const;

  // Run, and then next.Token for the only token of the step, by the thread that finishes last.
  // False where this operation can't do that; nothing is done then.
  virtual bool RunWithNext(Team& team, State& state, const Op& next) const;
};

// Rows of one matmul task: enough to reuse a weight tile, few enough to share out.
constexpr int64_t kRowBlock = 64;

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace sgl
