// Partial softmax over one block of 64 positions (online softmax, arXiv:2205.14135), merged block
// by block in ascending order. A partial depends only on the query, the block and the mask: not on
// which queries share the pass. That makes decode, chunked prefill, whole prefill and shared
// prefixes agree bit for bit.
#include "kernels/table.h"

namespace sgl::SGL_ISA {
namespace {

constexpr int kBlock = static_cast<int>(kAttentionBlock);
constexpr int kPositionVectors = kLanes == 16 ? 4 : 2;  // register tile: 4 queries x this many

SGL_INLINE int Padded(const AttentionShape& shape) {
  return static_cast<int>(PaddedHeadDim(shape.head_dim));
}

// Rows that will be wanted soon. Slots lie anywhere, so the hardware does not foresee them; and a
// core keeps few requests in flight, so they are spread over a loop, one row an iteration. They go
// to the second cache: requests that decode together have their slots a power of two apart, and
// rows at such a distance push each other out of the first one.
struct Hint {
  const char* rows;
  const int32_t* slots;
  int count;
  int row_bytes;
};

SGL_INLINE Hint MakeHint(const AttentionShape& shape, const void* rows, const int32_t* slots,
                         int count) {
  return {static_cast<const char*>(rows), slots, rows == nullptr ? 0 : count,
          static_cast<int>(Padded(shape) * SizeOf(shape.kv_type))};
}

SGL_INLINE void FetchRow(const Hint& hint, int i) {
  if (i >= hint.count) return;
  const char* row = hint.rows + int64_t{hint.slots[i]} * hint.row_bytes;
  for (int at = 0; at < hint.row_bytes; at += 64) __builtin_prefetch(row + at, 0, 2);
}

// The block's keys and values on their way through the kernel.
struct Block {
  const AttentionBlockArgs* args;
  float* keys;        // [padded head_dim, 64] transposed
  float* values;      // [64, padded head_dim]; unused when few queries read the pool directly
  float* scores;      // [4, 64] of the query tile
  float* key_scales;  // [64] of int8 pools, else null
  float* value_scales;
  int vectors;  // position vectors that hold something
  Hint soon;    // rows to fetch while the next loop runs
};

SGL_INLINE int64_t RowIndex(const Block& b, int position) {
  return int64_t{b.args->slots[position]} * Padded(*b.args->shape);
}

// Rows of the keys at kLanes positions from `first` on.
SGL_INLINE void KeyRows(const Block& b, int first, int64_t element_bytes, const uint8_t** rows) {
  const AttentionBlockArgs& a = *b.args;
  for (int i = 0; i < kLanes; ++i) {
    // Lanes past the end repeat the last position; the mask drops them.
    rows[i] = static_cast<const uint8_t*>(a.k) +
              RowIndex(b, Smaller(first + i, a.positions - 1)) * element_bytes;
  }
}

template <DType kType>
void TransposeKeys(const Block& b) {
  for (int first = 0; first < b.vectors * kLanes; first += kLanes) {
    const uint8_t* rows[kLanes];
    KeyRows(b, first, SizeOf(kType), rows);
    float* out = b.keys + first;
    EachElement<kType>(rows, Padded(*b.args->shape),
                       [&](int d, VF key) { Store(out + d * kBlock, key); });
  }
}

// Scores straight from the pool: keys are turned in registers and used at once. Each score is the
// same chain of multiply-adds as in ScoreTile.
template <DType kType, int kQueries>
SGL_INLINE void ScoresFromPool(const Block& b, const float* const* q) {
  const int head_dim = b.args->shape->head_dim;
  for (int v = 0; v < b.vectors; ++v) {
    const uint8_t* rows[kLanes];
    KeyRows(b, v * kLanes, SizeOf(kType), rows);
    for (int i = 0; i < kLanes; ++i) FetchRow(b.soon, v * kLanes + i);
    VF acc[kQueries];
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) acc[i] = Zero();
    EachElement<kType>(rows, Padded(*b.args->shape), [&](int d, VF key) {
      if (d >= head_dim) return;
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) acc[i] = Fma(Set(q[i][d]), key, acc[i]);
    });
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) Store(b.scores + i * kBlock + v * kLanes, acc[i]);
  }
}

// Scales of int8 keys and values, position by position. Keys' go into the scores, values' into the
// weights: that multiplies 64 numbers a query instead of the whole block.
void GatherScales(const Block& b) {
  const AttentionBlockArgs& a = *b.args;
  for (int p = 0; p < kBlock; ++p) {
    b.key_scales[p] = p < a.positions ? a.k_scale[a.slots[p]] : 0;
    b.value_scales[p] = p < a.positions ? a.v_scale[a.slots[p]] : 0;
  }
}

template <DType kType>
void WidenValues(const Block& b) {
  const int head_dim = Padded(*b.args->shape);
  for (int p = 0; p < b.args->positions; ++p) {
    const int64_t index = RowIndex(b, p);
    for (int d = 0; d < head_dim; d += kLanes) {
      Store(b.values + p * head_dim + d, LoadAs<kType>(b.args->v, index + d));
    }
  }
}

template <int kQueries, int kVectors>
SGL_INLINE void ScoreTile(const Block& b, const float* const* q, int vector) {
  const int head_dim = b.args->shape->head_dim;
  VF acc[kQueries][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[i][v] = Zero();
  }
  const float* keys = b.keys + vector * kLanes;
  for (int d = 0; d < head_dim; ++d, keys += kBlock) {
    FetchRow(b.soon, vector == 0 ? d : kBlock);
    VF k[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) k[v] = Load(keys + v * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const VF x = Set(q[i][d]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[i][v] = Fma(x, k[v], acc[i][v]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Store(b.scores + i * kBlock + (vector + v) * kLanes, acc[i][v]);
    }
  }
}

template <int kQueries>
SGL_INLINE void Scores(const Block& b, const float* const* q) {
  int v = 0;
  for (; b.vectors - v >= kPositionVectors; v += kPositionVectors) {
    ScoreTile<kQueries, kPositionVectors>(b, q, v);
  }
  for (; v < b.vectors; ++v) ScoreTile<kQueries, 1>(b, q, v);
}

// Positions of the block that a query sees: [begin, end).
struct Visible {
  int begin;
  int end;
};

SGL_INLINE Visible VisibleTo(const AttentionBlockArgs& a, int query_position) {
  Visible s;
  s.end = Smaller(a.positions, query_position + 1 - a.first_position);
  s.begin = 0;
  if (a.shape->window > 0) {
    s.begin = Larger(0, query_position + 1 - a.shape->window - a.first_position);
  }
  return s;
}

// Scores -> weights in place; writes maximum and sum behind the partial's values.
SGL_INLINE void Softmax(const Block& b, float* row, Visible seen, float* tail) {
  const AttentionShape& shape = *b.args->shape;
  const float cap = shape.softcap;
  const bool whole = seen.begin == 0 && seen.end == kBlock;  // nothing to mask
  VF largest = Set(-__builtin_inff());
  for (int v = 0; v < b.vectors; ++v) {
    VF s = Mul(Load(row + v * kLanes), Set(shape.scale));
    if (b.key_scales != nullptr) s = Mul(s, Load(b.key_scales + v * kLanes));
    if (cap > 0) s = Mul(Set(cap), Tanh(Mul(s, Set(1.0f / cap))));
    if (!whole) s = Window(s, seen.begin - v * kLanes, seen.end - v * kLanes, -__builtin_inff());
    Store(row + v * kLanes, s);
    largest = Max(largest, s);
  }
  const float top = ReduceMax(largest);
  VF sum = Zero();
  for (int v = 0; v < b.vectors; ++v) {
    VF p = Exp(Sub(Load(row + v * kLanes), Set(top)));
    if (!whole) p = Window(p, seen.begin - v * kLanes, seen.end - v * kLanes, 0.0f);
    sum = Add(sum, p);
    if (b.value_scales != nullptr) p = Mul(p, Load(b.value_scales + v * kLanes));
    Store(row + v * kLanes, p);
  }
  tail[0] = top;
  tail[1] = ReduceAdd(sum);
}

// Where the values come from: the pool in its type, or the widened copy.
template <bool kCopy, DType kType>
SGL_INLINE VF Value(const Block& b, int position, int64_t index, int d) {
  if (kCopy) return Load(b.values + position * Padded(*b.args->shape) + d);
  return LoadAs<kType>(b.args->v, index + d);
}

template <int kQueries, int kVectors, bool kCopy, DType kType>
SGL_INLINE void ValueTile(const Block& b, float* const* out, Visible range, int d) {
  VF acc[kQueries][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[i][v] = Zero();
  }
  for (int p = range.begin; p < range.end; ++p) {
    FetchRow(b.soon, d == 0 ? p : kBlock);
    const int64_t index = kCopy ? 0 : RowIndex(b, p);
    VF x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) x[v] = Value<kCopy, kType>(b, p, index, d + v * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const VF weight = Set(b.scores[i * kBlock + p]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[i][v] = Fma(weight, x[v], acc[i][v]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Store(out[i] + d + v * kLanes, acc[i][v]);
  }
}

template <int kQueries, bool kCopy, DType kType>
SGL_INLINE void Values(const Block& b, float* const* out, Visible range) {
  const int head_dim = Padded(*b.args->shape);
  int d = 0;
  for (; head_dim - d >= kPositionVectors * kLanes; d += kPositionVectors * kLanes) {
    ValueTile<kQueries, kPositionVectors, kCopy, kType>(b, out, range, d);
  }
  for (; d < head_dim; d += kLanes) ValueTile<kQueries, 1, kCopy, kType>(b, out, range, d);
}

template <int kQueries, bool kCopy, DType kType>
void QueryTile(Block& b, int first) {
  const AttentionBlockArgs& a = *b.args;
  const int head_dim = Padded(*a.shape);
  Visible seen[kQueries];
  Visible range = {kBlock, 0};
  for (int i = 0; i < kQueries; ++i) {
    seen[i] = VisibleTo(a, a.query_positions[first + i]);
    if (seen[i].begin < seen[i].end) {
      range.begin = Smaller(range.begin, seen[i].begin);
      range.end = Larger(range.end, seen[i].end);
    }
  }
  // The first queries' loops bring this block's values, then the next block's keys.
  b.soon = MakeHint(*a.shape, first == 0 ? a.v : nullptr, a.slots, a.positions);
  if (range.begin < range.end) {
    if (kCopy) {
      Scores<kQueries>(b, a.q + first);
    } else {
      ScoresFromPool<kType, kQueries>(b, a.q + first);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    float* tail = a.partial[first + i] + head_dim;
    if (seen[i].begin < seen[i].end) {
      Softmax(b, b.scores + i * kBlock, seen[i], tail);
    } else {
      for (int p = 0; p < kBlock; ++p) b.scores[i * kBlock + p] = 0;
      tail[0] = -__builtin_inff();
      tail[1] = 0;
    }
  }
  b.soon = MakeHint(*a.shape, first == 0 ? a.next_k : nullptr, a.next_slots, a.next_positions);
  Values<kQueries, kCopy, kType>(b, a.partial + first, range);
}

template <bool kCopy, DType kType>
void AllQueries(Block& b) {
  const int count = b.args->queries;
  int i = 0;
  for (; count - i >= 4; i += 4) QueryTile<4, kCopy, kType>(b, i);
  if (count - i == 3) QueryTile<3, kCopy, kType>(b, i);
  if (count - i == 2) QueryTile<2, kCopy, kType>(b, i);
  if (count - i == 1) QueryTile<1, kCopy, kType>(b, i);
}

template <DType kType>
void Attend(Block& b) {
  if (b.args->queries <= 4) {
    AllQueries<false, kType>(b);
    return;
  }
  TransposeKeys<kType>(b);
  WidenValues<kType>(b);
  AllQueries<true, DType::kF32>(b);
}

}  // namespace

void AttentionBlock(const AttentionBlockArgs& args) {
  const AttentionShape& shape = *args.shape;
  Block b;
  b.args = &args;
  b.keys = args.scratch;
  b.values = b.keys + kBlock * Padded(shape);
  b.scores = b.values + kBlock * Padded(shape);
  b.vectors = (args.positions + kLanes - 1) / kLanes;
  b.key_scales = nullptr;
  b.value_scales = nullptr;
  if (shape.kv_type == DType::kI8) {
    b.key_scales = b.scores + 4 * kBlock;
    b.value_scales = b.key_scales + kBlock;
    GatherScales(b);
  }
  switch (shape.kv_type) {
    case DType::kF32:
      return Attend<DType::kF32>(b);
    case DType::kF16:
      return Attend<DType::kF16>(b);
    case DType::kBf16:
      return Attend<DType::kBf16>(b);
    case DType::kI8:
      return Attend<DType::kI8>(b);
  }
}

void AttentionMerge(const float* partial, int64_t head_dim, float* running) {
  head_dim = PaddedHeadDim(head_dim);
  const float low = -__builtin_inff();
  const float block_max = partial[head_dim];
  const float old_max = running[head_dim];
  if (block_max == low) return;
  if (old_max == low) {
    __builtin_memcpy(running, partial, static_cast<size_t>(head_dim + 2) * 4);
    return;
  }
  const float top = old_max > block_max ? old_max : block_max;
  const VF old_scale = Exp(Set(old_max - top));
  const VF block_scale = Exp(Set(block_max - top));
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    Store(running + d, Fma(Load(partial + d), block_scale, Mul(Load(running + d), old_scale)));
  }
  float lane[2][kLanes];
  Store(lane[0], old_scale);
  Store(lane[1], block_scale);
  running[head_dim] = top;
  running[head_dim + 1] = running[head_dim + 1] * lane[0][0] + partial[head_dim + 1] * lane[1][0];
}

void AttentionFinish(const float* running, int64_t head_dim, float* out) {
  const float sum = running[PaddedHeadDim(head_dim) + 1];
  const VF inverse = Set(sum > 0 ? 1.0f / sum : 0.0f);
  int64_t d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) Store(out + d, Mul(Load(running + d), inverse));
  if (d < head_dim) StoreTail(out + d, Mul(Load(running + d), inverse), head_dim - d);
}

}  // namespace sgl::SGL_ISA
