#include "sgl/program.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

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
    const BufferId middles = buffers[static_cast<size_t>(in.blocks)].middles;
    if (middles != kNone) {
      a.middles = Floats(middles, token);
      a.middle_stride = Width(middles);
    }
  }
  return a;
}

void Program::State::Emit(const float* row, int64_t width, Activations out, int64_t token) const {
  if (out.floats != kNone && Floats(out.floats, token) != row) {
    std::memcpy(Floats(out.floats, token), row, static_cast<size_t>(width) * 4);
  }
  if (out.blocks != kNone) Quantize(row, out.blocks, token, 0, width);
}

void Program::State::Quantize(const float* x, BufferId blocks, int64_t token, int64_t column,
                              int64_t count) const {
  const BufferId middles = buffers[static_cast<size_t>(blocks)].middles;
  QBlock* out = Blocks(blocks, token) + column / 32;
  if (middles == kNone) {
    kernels->quantize(x, count, out);
  } else {
    kernels->quantize_centered(x, count, out, Floats(middles, token) + column / 32);
  }
}

namespace {

[[noreturn]] void Refuse(const char* op, const std::string& what) {
  throw std::invalid_argument(std::string(op) + ": " + what);
}

}  // namespace

void Program::State::Need(const char* op, BufferId id, bool blocks, int64_t width) const {
  if (id < 0 || id >= static_cast<BufferId>(buffers.size())) {
    Refuse(op, "buffer " + std::to_string(id) + " is not one of the " +
                   std::to_string(buffers.size()) + " that exist");
  }
  const Buffer& b = buffers[static_cast<size_t>(id)];
  if (b.blocks == blocks && (width < 0 || b.width == width)) return;
  const std::string wanted = width < 0 ? "" : " of width " + std::to_string(width);
  Refuse(op, "buffer " + std::to_string(id) + " holds " + (b.blocks ? "int8 blocks" : "floats") +
                 " of width " + std::to_string(b.width) + "; it needs " +
                 (blocks ? "int8 blocks" : "floats") + wanted);
}

void Program::State::NeedForms(const char* op, Activations a, int64_t width, bool some) const {
  if (some && a.floats == kNone && a.blocks == kNone) Refuse(op, "no output buffer is given");
  if (a.floats != kNone) Need(op, a.floats, false, width);
  if (a.blocks != kNone) Need(op, a.blocks, true, width);
}

void Program::State::NeedOperand(const char* op, const PackedWeight& w, Activations in) const {
  if (w.data == nullptr || w.nr != kernels->nr || w.n < 1 || w.k < 1) {
    Refuse(op, "the weight is empty or was packed for another instruction set");
  }
  const bool dense = IsDense(w.format);
  Need(op, dense ? in.floats : in.blocks, !dense, w.k);
}

void Program::State::NeedShape(const char* op, BufferId qkv, const AttentionShape& shape,
                               const KvPool& pool) const {
  if (shape.head_dim < 1 || shape.kv_heads < 1 || shape.heads < 1 ||
      shape.heads % shape.kv_heads != 0) {
    Refuse(op, std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_dim) +
                   " values don't fit " + std::to_string(shape.kv_heads) +
                   " KV heads; accepted is a multiple");
  }
  if (pool.k == nullptr || pool.v == nullptr || pool.slots < 1 || pool.slots > INT32_MAX) {
    Refuse(op, "the KV pool has no memory or " + std::to_string(pool.slots) +
                   " slots; accepted are 1 to 2^31 - 1");
  }
  if (shape.kv_type == DType::kI8 && (pool.k_scale == nullptr || pool.v_scale == nullptr)) {
    Refuse(op, "an int8 pool needs scales");
  }
  Need(op, qkv, false, (shape.heads + 2 * int64_t{shape.kv_heads}) * shape.head_dim);
}

Program::Program(const Kernels& kernels, int64_t max_tokens, int64_t vocab)
    : kernels_(kernels), max_tokens_(max_tokens), vocab_(vocab), state_(new State) {
  state_->kernels = &kernels;
  state_->max_tokens = max_tokens;
  state_->vocab = vocab;
}

Program::~Program() = default;

int64_t Program::Width(BufferId id) const {
  if (id < 0 || id >= static_cast<BufferId>(state_->buffers.size())) {
    Refuse("width", "buffer " + std::to_string(id) + " does not exist");
  }
  return state_->Width(id);
}

float* Program::Floats(BufferId id) {
  Width(id);
  return state_->buffers[static_cast<size_t>(id)].blocks ? nullptr : state_->Floats(id, 0);
}

QBlock* Program::Blocks(BufferId id) {
  Width(id);
  return state_->buffers[static_cast<size_t>(id)].blocks ? state_->Blocks(id, 0) : nullptr;
}

BufferId Program::AddFloats(int64_t width) {
  if (width < 1)
    Refuse("add_floats", "width " + std::to_string(width) + "; accepted are 1 or more");
  state_->buffers.push_back({width, false, {}, kNone});
  state_->buffers.back().data.Reserve(max_tokens_ * width * 4);
  return static_cast<BufferId>(state_->buffers.size() - 1);
}

BufferId Program::AddBlocks(int64_t width, bool centered) {
  if (width < 1 || width % 32 != 0) {
    Refuse("add_blocks", "width " + std::to_string(width) + "; accepted are multiples of 32");
  }
  const BufferId middles = centered ? AddFloats(width / 32) : kNone;
  state_->buffers.push_back({width, true, {}, middles});
  state_->buffers.back().data.Reserve(max_tokens_ * width / 32 *
                                      static_cast<int64_t>(sizeof(QBlock)));
  return static_cast<BufferId>(state_->buffers.size() - 1);
}

namespace {

// Whether all of slots[count] lie in [0, limit). No branch inside: the loop runs as vectors.
bool AllBelow(const int32_t* slots, int64_t count, uint32_t limit) {
  uint32_t outside = 0;  // top bit: some slot is negative or past the end
  for (int64_t i = 0; i < count; ++i) {
    const auto slot = static_cast<uint32_t>(slots[i]);
    outside |= slot | (limit - 1 - slot);
  }
  return (outside >> 31) == 0;
}

}  // namespace

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
    if (!AllBelow(s.rows.Slots(r), s.rows.seq_lens[r], static_cast<uint32_t>(state_->max_slots))) {
      return "row " + std::to_string(r) + "'s slot table holds a slot that is not in [0, " +
             std::to_string(state_->max_slots) + ")";
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
  if (s.outputs < 0 || s.outputs > max_tokens_ || s.full_rows < 0 || s.full_rows > s.outputs ||
      s.top_k < 0 || s.top_k > vocab_ || s.mask_words < 0) {
    return "outputs, full_rows, mask_words and top_k must lie between 0 and max_tokens, outputs and the "
           "vocabulary";
  }
  for (int64_t i = 0; i < s.outputs; ++i) {
    if (s.output_tokens[i] < 0 || s.output_tokens[i] >= s.tokens) {
      return "output token " + std::to_string(s.output_tokens[i]) + " is not in the step";
    }
  }
  return {};
}

void Program::Op::Token(State&, int, int64_t) const {}

bool Program::Op::RunWithNext(Team&, State&, const Op&) const { return false; }

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
    RunOps(team, state.profile && team.rank() == 0);
  });
  return {};
}

// All operations in order. With one token, small ones are done at the end of those before them.
void Program::RunOps(Team& team, bool timed) const {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = timed ? Clock::now() : Clock::time_point();
  for (size_t i = 0; i < ops_.size(); ++i) {
    const Op& op = *ops_[i];
    const bool small_next =
        state_->step->tokens == 1 && i + 1 < ops_.size() && ops_[i + 1]->IsTokenwise();
    const bool joined = small_next && op.RunWithNext(team, *state_, *ops_[i + 1]);
    if (!joined) op.Run(team, *state_);
    if (timed) {
      const Clock::time_point now = Clock::now();
      state_->times[i] += std::chrono::duration<double>(now - last).count();
      last = now;
    }
    if (joined) ++i;
  }
}

void Program::Profile(bool on) {
  state_->profile = on;
  state_->times.assign(ops_.size(), 0.0);
}

std::vector<std::pair<std::string, double>> Program::Times() const {
  std::vector<std::pair<std::string, double>> out;
  for (size_t i = 0; i < ops_.size(); ++i) {
    out.emplace_back(ops_[i]->name(), i < state_->times.size() ? state_->times[i] : 0.0);
  }
  return out;
}

}  // namespace sgl
