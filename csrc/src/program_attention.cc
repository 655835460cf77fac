// Recorded operations on the KV pool: norm + rotary + store, attention.
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "program_state.h"

namespace sgl {
namespace {

struct RopeStoreOp : Program::Op {
  const char* name() const override { return "rope_store"; }
  BufferId qkv = kNone;
  AttentionShape shape;
  NormSpec q_norm;
  NormSpec k_norm;
  RopeArgs rope;
  KvPool pool;

  void Run(Team& team, Program::State& s) const override {
    team.For(s.step->tokens, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) Token(s, team.rank(), t);
    });
  }

  bool IsTokenwise() const override { return true; }

  void Token(Program::State& s, int /*rank*/, int64_t t) const override {
    const Kernels& kernels = *s.kernels;
    const int64_t head_dim = shape.head_dim;
    float* q = s.Floats(qkv, t);
    float* k = q + shape.heads * head_dim;
    float* v = k + shape.kv_heads * head_dim;
    NormHeads(kernels, q, shape.heads, q_norm);
    NormHeads(kernels, k, shape.kv_heads, k_norm);
    if (rope.cos != nullptr) {
      // q and k lie end to end: one call turns both.
      kernels.rope(q, shape.heads + shape.kv_heads, shape.head_dim,
                   static_cast<int32_t>(s.step->positions[t]), rope);
    }
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      const int64_t row = h * pool.slots + s.step->out_slots[t];
      const int64_t at = row * PaddedHeadDim(head_dim) * SizeOf(shape.kv_type);
      Store(kernels, k + h * head_dim, pool.k, at, pool.k_scale, row);
      Store(kernels, v + h * head_dim, pool.v, at, pool.v_scale, row);
    }
  }

  // One head into row `row` of a pool, `at` bytes from its start.
  void Store(const Kernels& kernels, const float* x, void* to, int64_t at, float* scales,
             int64_t row) const {
    uint8_t* bytes = static_cast<uint8_t*>(to) + at;
    if (shape.kv_type == DType::kI8) {
      kernels.store_i8(x, shape.head_dim, reinterpret_cast<int8_t*>(bytes), scales + row);
    } else {
      kernels.store_as(x, shape.head_dim, shape.kv_type, bytes);
    }
  }

  void NormHeads(const Kernels& kernels, float* x, int heads, const NormSpec& norm) const {
    for (int h = 0; norm.weight != nullptr && h < heads; ++h) {
      float* head = x + h * shape.head_dim;
      kernels.rms_norm(head, norm.weight, norm.eps, shape.head_dim, head);
    }
  }
};

// First block that a query at `position` sees.
int64_t FirstBlock(const AttentionShape& shape, int64_t position) {
  if (shape.window <= 0) return 0;
  return std::max<int64_t>(0, position + 1 - shape.window) / kAttentionBlock;
}

// A pass of queries through one block.
struct Pass {
  const float* q[kAttentionQueries];
  float* partial[kAttentionQueries];
  int32_t positions[kAttentionQueries];
  AttentionBlockArgs args;

  void Add(const float* query, float* to, int64_t position) {
    q[args.queries] = query;
    partial[args.queries] = to;
    positions[args.queries] = static_cast<int32_t>(position);
    ++args.queries;
  }
};

struct AttentionOp : Program::Op {
  const char* name() const override { return "attention"; }
  BufferId qkv = kNone;
  AttentionShape shape;
  KvPool pool;
  Activations out;  // the float form is always there

  int64_t group() const { return shape.heads / shape.kv_heads; }
  int64_t partial_width() const { return PartialFloats(shape.head_dim); }

  // Numbers of one block partial of one head of the running step.
  float* Partial(const Program::State& s, int64_t index, int64_t head) const {
    return s.partials.as<float>() + index * s.partial_floats + head * partial_width();
  }

  void Run(Team& team, Program::State& s) const override {
    const AttentionPlan& plan = s.plan;
    const auto tiles = static_cast<int64_t>(plan.tiles.size());
    const auto shared = static_cast<int64_t>(plan.shared.size());
    const int64_t heads = shape.kv_heads;
    // Prefill tiles are long: one at a time. Decode blocks are short: several.
    if (tiles > 0) {
      team.For(tiles * heads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          PrefillTile(s, team.rank(), plan.tiles[static_cast<size_t>(i / heads)], i % heads);
        }
      });
    }
    const auto decode = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) DecodeBlock(s, team.rank(), i, i + 1 < end);
    };
    if (s.step->tokens == 1 && shared > 0) {
      team.For(shared * heads, 2, decode, [&] { FinishToken(s, 0); });
      return;
    }
    if (shared > 0) team.For(shared * heads, 2, decode);
    team.For(s.step->tokens, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) FinishToken(s, t);
    });
  }

  void Prepare(Program::State& s, int rank, int64_t kv_head, Pass& pass) const {
    pass.args.shape = &shape;
    pass.args.k = HeadOf(pool.k, kv_head);
    pass.args.v = HeadOf(pool.v, kv_head);
    if (shape.kv_type == DType::kI8) {
      pass.args.k_scale = pool.k_scale + kv_head * pool.slots;
      pass.args.v_scale = pool.v_scale + kv_head * pool.slots;
    }
    pass.args.q = pass.q;
    pass.args.query_positions = pass.positions;
    pass.args.partial = pass.partial;
    pass.args.scratch = s.scratch[static_cast<size_t>(rank)].floats.as<float>();
  }

  const void* HeadOf(const void* base, int64_t kv_head) const {
    return static_cast<const uint8_t*>(base) +
           kv_head * pool.slots * PaddedHeadDim(shape.head_dim) * SizeOf(shape.kv_type);
  }

  // Slots of a decode task's block: those of any member.
  static const int32_t* SlotsOf(const Program::State& s, const AttentionPlan::Shared& task) {
    return s.step->rows.Slots(s.plan.members[static_cast<size_t>(task.first)]) +
           task.block * kAttentionBlock;
  }

  // Task `number` counts KV heads inside blocks; `more`: this thread does the one after it next.
  void DecodeBlock(Program::State& s, int rank, int64_t number, bool more) const {
    const AttentionRows& rows = s.step->rows;
    const auto& task = s.plan.shared[static_cast<size_t>(number / shape.kv_heads)];
    const int64_t kv_head = number % shape.kv_heads;
    Pass pass;
    Prepare(s, rank, kv_head, pass);
    for (int64_t i = task.first; i < task.first + task.count; ++i) {
      const int64_t r = s.plan.members[static_cast<size_t>(i)];
      const int64_t position = rows.seq_lens[r] - 1;
      if (task.block < FirstBlock(shape, position)) continue;
      const int64_t index = s.plan.partial_base[static_cast<size_t>(r)] + task.block;
      const float* q = s.Floats(qkv, s.plan.first_token[static_cast<size_t>(r)]);
      for (int64_t h = kv_head * group(); h < (kv_head + 1) * group(); ++h) {
        pass.Add(q + h * shape.head_dim, Partial(s, index, h), position);
      }
    }
    if (pass.args.queries == 0) return;
    const int64_t start = task.block * kAttentionBlock;
    pass.args.slots = SlotsOf(s, task);
    pass.args.first_position = static_cast<int32_t>(start);
    pass.args.positions = static_cast<int32_t>(task.positions);
    if (more) {
      const auto& next = s.plan.shared[static_cast<size_t>((number + 1) / shape.kv_heads)];
      pass.args.next_k = HeadOf(pool.k, (number + 1) % shape.kv_heads);
      pass.args.next_slots = SlotsOf(s, next);
      pass.args.next_positions = static_cast<int32_t>(next.positions);
    }
    s.kernels->attention_block(pass.args);
  }

  void PrefillTile(Program::State& s, int rank, const AttentionPlan::Tile& tile,
                   int64_t kv_head) const {
    const AttentionRows& rows = s.step->rows;
    const int64_t width = partial_width();
    const int64_t queries = tile.count * group();
    const int64_t token = s.plan.first_token[static_cast<size_t>(tile.row)] + tile.begin;
    const int64_t position = rows.seq_lens[tile.row] - rows.query_lens[tile.row] + tile.begin;
    Pass pass;
    Prepare(s, rank, kv_head, pass);
    float* partial = pass.args.scratch + AttentionScratchFloats(shape.head_dim);
    float* running = partial + kAttentionQueries * width;
    for (int64_t t = 0; t < tile.count; ++t) {
      for (int64_t g = 0; g < group(); ++g) {
        const float* q = s.Floats(qkv, token + t) + (kv_head * group() + g) * shape.head_dim;
        float* tail = running + pass.args.queries * width + width - 2;
        tail[0] = -std::numeric_limits<float>::infinity();
        tail[1] = 0;
        pass.Add(q, partial + pass.args.queries * width, position + t);
      }
    }
    const int64_t length = position + tile.count;
    for (int64_t block = FirstBlock(shape, position); block * kAttentionBlock < length; ++block) {
      const int64_t start = block * kAttentionBlock;
      pass.args.slots = rows.Slots(tile.row) + start;
      pass.args.first_position = static_cast<int32_t>(start);
      pass.args.positions = static_cast<int32_t>(std::min(kAttentionBlock, length - start));
      s.kernels->attention_block(pass.args);
      for (int64_t i = 0; i < queries; ++i) {
        s.kernels->attention_merge(partial + i * width, shape.head_dim, running + i * width);
      }
    }
    for (int64_t i = 0; i < queries; ++i) {
      float* to = s.Floats(out.floats, token + i / group()) +
                  (kv_head * group() + i % group()) * shape.head_dim;
      s.kernels->attention_finish(running + i * width, shape.head_dim, to);
    }
  }

  // Merges a decode token's blocks in ascending order; every token then takes its final form.
  void FinishToken(Program::State& s, int64_t t) const {
    const int64_t r = s.plan.token_row[static_cast<size_t>(t)];
    const int64_t base = s.plan.partial_base[static_cast<size_t>(r)];
    float* to = s.Floats(out.floats, t);
    if (base >= 0) {
      const int64_t length = s.step->rows.seq_lens[r];
      const int64_t first = FirstBlock(shape, length - 1);
      for (int64_t h = 0; h < shape.heads; ++h) {
        float* running = Partial(s, base + first, h);
        for (int64_t block = first + 1; block * kAttentionBlock < length; ++block) {
          s.kernels->attention_merge(Partial(s, base + block, h), shape.head_dim, running);
        }
        s.kernels->attention_finish(running, shape.head_dim, to + h * shape.head_dim);
      }
    }
    s.Emit(to, shape.heads * shape.head_dim, out, t);
  }
};

}  // namespace

void Program::AddRopeStore(BufferId qkv, const AttentionShape& shape, NormSpec q_norm,
                           NormSpec k_norm, const RopeArgs& rope, const KvPool& pool) {
  state_->NeedShape("add_rope_store", qkv, shape, pool);
  if (rope.cos != nullptr &&
      (rope.sin == nullptr || rope.rotary_dim < 2 || rope.rotary_dim > shape.head_dim)) {
    throw std::invalid_argument("add_rope_store: " + std::to_string(rope.rotary_dim) +
                                " values rotate; accepted are 2 to head_dim " +
                                std::to_string(shape.head_dim));
  }
  auto op = std::make_unique<RopeStoreOp>();
  op->qkv = qkv;
  op->shape = shape;
  op->q_norm = q_norm;
  op->k_norm = k_norm;
  op->rope = rope;
  op->pool = pool;
  state_->max_slots = std::min(state_->max_slots, pool.slots);
  if (rope.cos != nullptr) state_->max_positions = std::min(state_->max_positions, rope.positions);
  ops_.push_back(std::move(op));
}

void Program::AddAttention(BufferId qkv, const AttentionShape& shape, const KvPool& pool,
                           Activations out) {
  state_->NeedShape("add_attention", qkv, shape, pool);
  state_->NeedFloats("add_attention", out.floats, shape.heads * int64_t{shape.head_dim});
  state_->NeedForms("add_attention", out, shape.heads * int64_t{shape.head_dim}, true);
  auto op = std::make_unique<AttentionOp>();
  op->qkv = qkv;
  op->shape = shape;
  op->pool = pool;
  op->out = out;
  if (op->group() > kAttentionQueries) {
    throw std::invalid_argument("more than 64 query heads on one KV head are not supported");
  }
  state_->max_slots = std::min(state_->max_slots, pool.slots);
  const int64_t width = op->partial_width();
  state_->heads_per_kv = std::max(state_->heads_per_kv, op->group());
  state_->partial_floats = std::max(state_->partial_floats, shape.heads * width);
  state_->scratch_floats = std::max(state_->scratch_floats, AttentionScratchFloats(shape.head_dim) +
                                                                2 * kAttentionQueries * width);
  ops_.push_back(std::move(op));
}

}  // namespace sgl
