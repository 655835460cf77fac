// Quantised matmul: int8 activations x 4- to 8-bit weights, exact integer dots per group, float32
// accumulation over groups in ascending order of k.
#include "kernels/table.h"

namespace sgl::SGL_ISA {
namespace {

template <int kBits>
SGL_INLINE void Unpack(const uint8_t* p, WV* w) {
  constexpr int kVec = kLanes * 4;
  if (kBits == 8) {
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) w[q] = EightBits(LoadBytes(p + q * kVec));
    return;
  }
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const WV bytes = LoadBytes(p + v * kVec);
    w[v] = LowNibbles(bytes);
    w[v + 4] = HighNibbles(bytes);
  }
  if (kBits == 5) {
    const WV h = LoadBytes(p + 4 * kVec);
    w[0] = OrBits<4, 0x10>(w[0], h);
    w[1] = OrBits<3, 0x10>(w[1], h);
    w[2] = OrBits<2, 0x10>(w[2], h);
    w[3] = OrBits<1, 0x10>(w[3], h);
    w[4] = OrBits<0, 0x10>(w[4], h);
    w[5] = OrBits<-1, 0x10>(w[5], h);
    w[6] = OrBits<-2, 0x10>(w[6], h);
    w[7] = OrBits<-3, 0x10>(w[7], h);
  }
  if (kBits == 6) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const WV h = LoadBytes(p + (4 + half) * kVec);
      w[4 * half] = OrBits<4, 0x30>(w[4 * half], h);
      w[4 * half + 1] = OrBits<2, 0x30>(w[4 * half + 1], h);
      w[4 * half + 2] = OrBits<0, 0x30>(w[4 * half + 2], h);
      w[4 * half + 3] = OrBits<-2, 0x30>(w[4 * half + 3], h);
    }
  }
}

// Scale or minimum number `index` (in units of kLanes) of a group.
template <bool kWide>
SGL_INLINE VF LoadScale(const uint8_t* scales, int index) {
  if (kWide) return Load(reinterpret_cast<const float*>(scales) + index * kLanes);
  return LoadHalf(reinterpret_cast<const uint16_t*>(scales) + index * kLanes);
}

// Format as compile-time numbers.
template <int kBits_, int kGroupSize, int kZeroLog2, bool kMin_, bool kWide_>
struct Fmt {
  static constexpr int kBits = kBits_;
  static constexpr bool kFine = kGroupSize == 16;
  static constexpr int kZero = kBits == 8 ? kEightBitZeroLog2 : kZeroLog2;
  static constexpr bool kMin = kMin_;
  static constexpr bool kWide = kWide_;
};

constexpr int64_t kBlockBytes = static_cast<int64_t>(sizeof(QBlock));

// -sum(q) * zero point, the start of an integer dot.
template <class F>
SGL_INLINE VI ZeroStart(int32_t neg_sum) {
  if (F::kZero < 0) return SetI(0);
  return ShiftLeft<(F::kZero < 0 ? 0 : F::kZero)>(SetI(neg_sum));
}

alignas(64) constexpr int8_t kOnes[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

// Sum of 4 * kCount weights of each feature, without scale and minimum.
template <class F, int kFirst, int kCount>
SGL_INLINE VF WeightSum(const WV* w) {
  VI sum = ZeroStart<F>(-4 * kCount);
  Dot<F::kBits, kFirst, kCount, 1>(&sum, w, kOnes, 0);
  return ToFloat(sum);
}

template <class F>
constexpr int kScaleBytes = kLanes * (F::kFine ? 2 : 1) * (F::kMin ? 2 : 1) * (F::kWide ? 4 : 2);

template <class F>
constexpr int kGroupBytes = kScaleBytes<F> + kLanes * 4 * F::kBits;

constexpr int kAhead = 2048;  // bytes of weights asked for before they are needed

// 32 of k of a tile as the loop over rows wants it.
template <class F>
struct Group {
  static constexpr int kParts = F::kFine ? 2 : 1;
  WV w[8];
  VF scale[kParts];
  VF min[kParts];
};

template <class F>
SGL_INLINE void ReadGroup(const uint8_t* scales, Group<F>& group) {
  constexpr int kStep = F::kMin ? 2 : 1;
  Unpack<F::kBits>(scales + kScaleBytes<F>, group.w);
#pragma GCC unroll 2
  for (int i = 0; i < Group<F>::kParts; ++i) {
    group.scale[i] = LoadScale<F::kWide>(scales, kStep * i);
    group.min[i] = F::kMin ? LoadScale<F::kWide>(scales, kStep * i + 1) : Zero();
  }
}

// What a block's middle is multiplied with: the sum of the weights (without minimums where they
// meet scaled_sum, which holds the middle too).
template <class F>
SGL_INLINE VF SumOf(const Group<F>& group) {
  if constexpr (F::kFine) {
    VF sum = Mul(WeightSum<F, 0, 4>(group.w), group.scale[0]);
    sum = Fma(WeightSum<F, 4, 4>(group.w), group.scale[1], sum);
    return F::kMin ? Fma(Add(group.min[0], group.min[1]), Set(16.0f), sum) : sum;
  } else {
    return Mul(WeightSum<F, 0, 8>(group.w), group.scale[0]);
  }
}

// A group of 32 with one scale per feature.
template <class F, int kRows>
SGL_INLINE void AddGroupOf32(const Group<F>& group, const QBlock* x, int64_t stride, VF* acc) {
  VI dot[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) dot[r] = ZeroStart<F>(x[r * stride].neg_sum);
  Dot<F::kBits, 0, 8, kRows>(dot, group.w, x->q, stride * kBlockBytes);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const QBlock& block = x[r * stride];
    acc[r] = Fma(Mul(ToFloat(dot[r]), group.scale[0]), Set(block.scale), acc[r]);
    if (F::kMin) acc[r] = Fma(group.min[0], Set(block.scaled_sum), acc[r]);
  }
}

// Two groups of 16: integer dots apart, joined in float.
template <class F, int kRows>
SGL_INLINE void AddGroupsOf16(const Group<F>& group, const QBlock* x, int64_t stride, VF* acc) {
  VI lo[kRows];
  VI hi[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const QBlock& block = x[r * stride];
    lo[r] = ZeroStart<F>(block.neg_sum_lo);
    hi[r] = ZeroStart<F>(block.neg_sum - block.neg_sum_lo);
  }
  Dot<F::kBits, 0, 4, kRows>(lo, group.w, x->q, stride * kBlockBytes);
  Dot<F::kBits, 4, 4, kRows>(hi, group.w, x->q, stride * kBlockBytes);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const QBlock& block = x[r * stride];
    VF sum = Mul(ToFloat(lo[r]), group.scale[0]);
    sum = Fma(ToFloat(hi[r]), group.scale[1], sum);
    if (F::kMin) {
      sum = Fma(group.min[0], Set(static_cast<float>(-block.neg_sum_lo)), sum);
      sum = Fma(group.min[1], Set(static_cast<float>(block.neg_sum_lo - block.neg_sum)), sum);
    }
    acc[r] = Fma(sum, Set(block.scale), acc[r]);
  }
}

// kDotRows rows at a time.
template <class F, int kRows>
SGL_INLINE void AddRows(const Group<F>& group, const QBlock* x, int64_t stride, VF* acc) {
  constexpr int kNow = kRows < kDotRows<F::kBits> ? kRows : kDotRows<F::kBits>;
  if constexpr (F::kFine) {
    AddGroupsOf16<F, kNow>(group, x, stride, acc);
  } else {
    AddGroupOf32<F, kNow>(group, x, stride, acc);
  }
  if constexpr (kRows > kNow) {
    AddRows<F, kRows - kNow>(group, x + kNow * stride, stride, acc + kNow);
  }
}

// Where the sums of weights come from, if blocks have middles (see kernels.h).
// kKept: they are left for the rows that follow.
enum class Sums { kNone, kHere, kKept, kGiven };

// acc[kRows] += groups [begin, begin + count) of a tile, in this order; of each group the middles'
// part first. `sums` holds one vector a group if they are kept or given.
template <class F, int kRows, Sums kSums>
SGL_INLINE void AddGroups(const MatmulArgs& a, const uint8_t* data, int64_t row, int64_t begin,
                          int64_t count, VF* sums, VF* acc) {
  const QBlock* x = static_cast<const QBlock*>(a.x) + row * a.x_stride + begin;
  const float* middles =
      kSums == Sums::kNone ? nullptr : a.middles + row * a.middle_stride + begin;
  data += begin * kGroupBytes<F>;
  for (int64_t g = 0; g < count; ++g) {
    const uint8_t* scales = data + g * kGroupBytes<F>;
    if (kRows > 4) {
      // With few rows the loads themselves run far enough ahead.
#pragma GCC unroll 16
      for (int at = 0; at < kGroupBytes<F>; at += 64) __builtin_prefetch(scales + kAhead + at);
    }
    Group<F> group;
    ReadGroup(scales, group);
    if (kSums != Sums::kNone) {
      const VF sum = kSums == Sums::kGiven ? sums[g] : SumOf(group);
      if (kSums == Sums::kKept) sums[g] = sum;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        acc[r] = Fma(sum, Set(middles[r * a.middle_stride + g]), acc[r]);
      }
    }
    if (kDotRows<F::kBits> > 1 && kRows >= 4) Park(group.w);
    AddRows<F, kRows>(group, x + g, a.x_stride, acc);
  }
}

template <class F, int kRows>
void Rows(const MatmulArgs& a, const uint8_t* data, int64_t row, int64_t feature) {
  VF acc[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc[r] = Zero();
  if (a.middles == nullptr) {
    AddGroups<F, kRows, Sums::kNone>(a, data, row, 0, a.w->k / 32, nullptr, acc);
  } else {
    AddGroups<F, kRows, Sums::kHere>(a, data, row, 0, a.w->k / 32, nullptr, acc);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) WriteTile(a, row + r, feature, acc[r]);
}

// Exactly `rows` <= kFewRows rows: a tile is unpacked once for all of them.
constexpr int kFewRows = kRowTile < 8 ? kRowTile : 8;

template <class F>
void FewRows(const MatmulArgs& a, const uint8_t* data, int64_t row, int64_t rows, int64_t feature) {
  switch (rows) {
    case 1:
      return Rows<F, 1>(a, data, row, feature);
    case 2:
      return Rows<F, 2>(a, data, row, feature);
    case 3:
      return Rows<F, 3>(a, data, row, feature);
    case 4:
      return Rows<F, 4>(a, data, row, feature);
    case 5:
      return Rows < F, kFewRows<5 ? kFewRows : 5>(a, data, row, feature);
    case 6:
      return Rows < F, kFewRows<6 ? kFewRows : 6>(a, data, row, feature);
    case 7:
      return Rows < F, kFewRows<7 ? kFewRows : 7>(a, data, row, feature);
    default:
      return Rows<F, kFewRows>(a, data, row, feature);
  }
}

// Many rows: the sums of weights of a piece of a tile are taken once for all of them.
constexpr int64_t kPieceGroups = 64;
constexpr int64_t kPieceRows = 64;

template <class F, int kRows, Sums kSums>
void RowsOfPiece(const MatmulArgs& a, const uint8_t* data, int64_t row, int64_t begin,
                 int64_t count, VF* sums, VF* total) {
  VF acc[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc[r] = total[r];
  AddGroups<F, kRows, kSums>(a, data, row, begin, count, sums, acc);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) total[r] = acc[r];
}

// Exactly kFewRows < rows <= kPieceRows rows.
template <class F, bool kCentered>
void ManyRows(const MatmulArgs& a, const uint8_t* data, int64_t row, int64_t rows,
              int64_t feature) {
  constexpr Sums kFirst = kCentered ? Sums::kKept : Sums::kNone;
  constexpr Sums kNext = kCentered ? Sums::kGiven : Sums::kNone;
  VF sums[kPieceGroups];
  VF total[kPieceRows];
  for (int64_t r = 0; r < rows; ++r) total[r] = Zero();
  const int64_t groups = a.w->k / 32;
  for (int64_t begin = 0; begin < groups; begin += kPieceGroups) {
    const int64_t count = Smaller(kPieceGroups, groups - begin);
    int64_t r = rows < kRowTile ? kFewRows : kRowTile;
    if (rows < kRowTile) {
      RowsOfPiece<F, kFewRows, kFirst>(a, data, row, begin, count, sums, total);
    } else {
      RowsOfPiece<F, kRowTile, kFirst>(a, data, row, begin, count, sums, total);
    }
    for (; r + kRowTile <= rows; r += kRowTile) {
      RowsOfPiece<F, kRowTile, kNext>(a, data, row + r, begin, count, sums, total + r);
    }
    if (kRowTile > kFewRows && r + kFewRows <= rows) {
      RowsOfPiece<F, kFewRows, kNext>(a, data, row + r, begin, count, sums, total + r);
      r += kFewRows;
    }
    for (; r + 4 <= rows; r += 4) {
      RowsOfPiece<F, 4, kNext>(a, data, row + r, begin, count, sums, total + r);
    }
    for (; r < rows; ++r) {
      RowsOfPiece<F, 1, kNext>(a, data, row + r, begin, count, sums, total + r);
    }
  }
  for (int64_t r = 0; r < rows; ++r) WriteTile(a, row + r, feature, total[r]);
}

template <class F>
void Matmul(const MatmulArgs& a, int64_t row_begin, int64_t row_end, int64_t tile_begin,
            int64_t tile_end) {
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const uint8_t* data = a.w->data + tile * a.w->tile_bytes;
    for (int64_t row = row_begin; row < row_end; row += kPieceRows) {
      const int64_t rows = Smaller(kPieceRows, row_end - row);
      if (rows <= kFewRows) {
        FewRows<F>(a, data, row, rows, tile * kLanes);
      } else if (a.middles == nullptr) {
        ManyRows<F, false>(a, data, row, rows, tile * kLanes);
      } else {
        ManyRows<F, true>(a, data, row, rows, tile * kLanes);
      }
    }
  }
}

}  // namespace

void MatmulQuant(const MatmulArgs& a, int64_t r0, int64_t r1, int64_t t0, int64_t t1) {
  switch (a.w->format) {
    case Format::kQ4_0:
      return Matmul<Fmt<4, 32, 3, false, false>>(a, r0, r1, t0, t1);
    case Format::kQ4_1:
      return Matmul<Fmt<4, 32, -1, true, false>>(a, r0, r1, t0, t1);
    case Format::kQ5_0:
      return Matmul<Fmt<5, 32, 4, false, false>>(a, r0, r1, t0, t1);
    case Format::kQ5_1:
      return Matmul<Fmt<5, 32, -1, true, false>>(a, r0, r1, t0, t1);
    case Format::kQ8_0:
      return Matmul<Fmt<8, 32, 7, false, false>>(a, r0, r1, t0, t1);
    case Format::kQ2K:
      return Matmul<Fmt<4, 16, -1, true, true>>(a, r0, r1, t0, t1);
    case Format::kQ3K:
      return Matmul<Fmt<4, 16, 2, false, true>>(a, r0, r1, t0, t1);
    case Format::kQ4K:
      return Matmul<Fmt<4, 32, -1, true, true>>(a, r0, r1, t0, t1);
    case Format::kQ5K:
      return Matmul<Fmt<5, 32, -1, true, true>>(a, r0, r1, t0, t1);
    case Format::kQ6K:
      return Matmul<Fmt<6, 16, 5, false, true>>(a, r0, r1, t0, t1);
    default:
      return;
  }
}

}  // namespace sgl::SGL_ISA
