#include "sgl/program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "program_state.h"

namespace sgl {

void Arena::Free::operator()(uint8_t* p) const { std::free(p); }

void Arena::Reserve(int64_t bytes) {
  if (bytes <= bytes_) return;
  const int64_t rounded = (bytes + 63) / 64 * 64;
  data_.reset(static_cast<uint8_t*>(std::aligned_alloc(64, static_cast<size_t>(rounded))));
  if (data_ == nullptr) throw std::bad_alloc();
  bytes_ = rounded;
}

MatmulArgs Program::State::Operands(const PackedWeight& w, Activations in, int64_t token) const {
  MatmulArgs a;
  a.w = &w;
  if (IsDense(w.format)) {
    a.x = Floats(in.floats, token);
    a.x_stride = Width(in.floats);
  } else {
    a.x = Blocks(in.blocks, token);
    a.x_stride = Width(in.blocks) / 32;
  }
  return a;
}

void Program::State::Emit(const float* row, int64_t width, Activations out, int64_t token) const {
  if (out.floats != kNone && Floats(out.floats, token) != row) {
    std::memcpy(Floats(out.floats, token), row, static_cast<size_t>(width) * 4);
  }
  if (out.blocks != kNone) kernels->quantize(row, width, Blocks(out.blocks, token));
}

Program::Program(const Kernels& kernels, int64_t max_tokens, int64_t vocab)
    : kernels_(kernels), max_tokens_(max_tokens), vocab_(vocab), state_(new State) {
  state_->kernels = &kernels;
  state_->max_tokens = max_tokens;
  state_->vocab = vocab;
}

Program::~Program() = default;

BufferId Program::AddFloats(int64_t width) {
  state_->buffers.push_back({width, false, {}});
  state_->buffers.back().data.Reserve(max_tokens_ * width * 4);
  return static_cast<BufferId>(state_->buffers.size() - 1);
}

BufferId Program::AddBlocks(int64_t width) {
  state_->buffers.push_back({width, true, {}});
  state_->buffers.back().data.Reserve(max_tokens_ * width / 32 *
                                      static_cast<int64_t>(sizeof(QBlock)));
  return static_cast<BufferId>(state_->buffers.size() - 1);
}

std::string Program::Check(const Step& s) const {
  if (s.tokens < 1 || s.tokens > max_tokens_) {
    return "step has " + std::to_string(s.tokens) + " tokens; accepted are 1 to " +
           std::to_string(max_tokens_);
  }
  int64_t sum = 0;
  for (int64_t r = 0; r < s.rows.rows; ++r) {
    const int64_t queries = s.rows.query_lens[r];
    if (queries < 1 || s.rows.seq_lens[r] < queries || s.rows.seq_lens[r] > s.rows.slot_stride) {
      return "row " + std::to_string(r) + " has " + std::to_string(queries) + " new tokens of " +
             std::to_string(s.rows.seq_lens[r]) +
             "; it needs 1 or more, at most its length, and "
             "no more than the slot table's " +
             std::to_string(s.rows.slot_stride);
    }
    sum += queries;
  }
  if (sum != s.tokens) {
    return "rows hold " + std::to_string(sum) + " tokens, the step " + std::to_string(s.tokens);
  }
  for (int64_t t = 0; t < s.tokens; ++t) {
    if (s.input_ids[t] < 0 || s.input_ids[t] >= vocab_) {
      return "token id " + std::to_string(s.input_ids[t]) + " is not below the vocabulary size " +
             std::to_string(vocab_);
    }
    if (s.out_slots[t] < 0 || s.out_slots[t] >= state_->max_slots || s.positions[t] < 0 ||
        s.positions[t] >= state_->max_positions) {
      return "token " + std::to_string(t) + " goes to slot " + std::to_string(s.out_slots[t]) +
             " at position " + std::to_string(s.positions[t]) + "; there are " +
             std::to_string(state_->max_slots) + " slots and " +
             std::to_string(state_->max_positions) + " positions";
    }
  }
  for (int64_t i = 0; i < s.outputs; ++i) {
    if (s.output_tokens[i] < 0 || s.output_tokens[i] >= s.tokens) {
      return "output token " + std::to_string(s.output_tokens[i]) + " is not in the step";
    }
  }
  if (s.outputs > max_tokens_ || s.full_rows > s.outputs || s.top_k > vocab_) {
    return "outputs, full_rows and top_k must not exceed max_tokens, outputs and the vocabulary";
  }
  return {};
}

std::string Program::Run(ThreadPool& pool, const Step& step) {
  std::string error = Check(step);
  if (!error.empty()) return error;
  State& state = *state_;
  state.step = &step;
  state.plan.Build(step.rows, static_cast<int>(state.heads_per_kv));
  state.partials.Reserve(state.plan.partials * state.partial_floats * 4);
  state.scratch.resize(static_cast<size_t>(pool.size()));
  for (State::Scratch& s : state.scratch) {
    s.floats.Reserve(state.scratch_floats * 4);
    s.best.resize(static_cast<size_t>(step.outputs * std::max<int64_t>(1, step.top_k)));
    s.found.assign(static_cast<size_t>(step.outputs), 0);
  }
  pool.Run([&](Team& team) {
    for (const std::unique_ptr<Op>& op : ops_) op->Run(team, state);
  });
  return {};
}

}  // namespace sgl
