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

// -sum(q) * zero point, the start of an integer dot.
template <class F>
SGL_INLINE VI ZeroStart(int32_t neg_sum) {
  if (F::kZero < 0) return SetI(0);
  return ShiftLeft<(F::kZero < 0 ? 0 : F::kZero)>(SetI(neg_sum));
}

// One group of 32 with one scale per feature.
template <class F>
SGL_INLINE VF GroupOf32(VF acc, const WV* w, VF scale, VF min, const QBlock& x) {
  const VI dot = Dot<F::kBits, 0, 8>(ZeroStart<F>(x.neg_sum), w, x.q);
  acc = Fma(Mul(ToFloat(dot), scale), Set(x.scale), acc);
  return F::kMin ? Fma(min, Set(x.scaled_sum), acc) : acc;
}

alignas(64) constexpr int8_t kOnes[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

// Sum of 4 * kCount weights of each feature, without scale and minimum.
template <class F, int kFirst, int kCount>
SGL_INLINE VF WeightSum(const WV* w) {
  return ToFloat(Dot<F::kBits, kFirst, kCount>(ZeroStart<F>(-4 * kCount), w, kOnes));
}

// Two groups of 16: integer dots apart, joined in float.
template <class F>
SGL_INLINE VF GroupsOf16(VF acc, const WV* w, const VF* scale, const VF* min, const QBlock& x) {
  const int32_t neg_hi = x.neg_sum - x.neg_sum_lo;
  const VI lo = Dot<F::kBits, 0, 4>(ZeroStart<F>(x.neg_sum_lo), w, x.q);
  const VI hi = Dot<F::kBits, 4, 4>(ZeroStart<F>(neg_hi), w, x.q);
  VF sum = Mul(ToFloat(lo), scale[0]);
  sum = Fma(ToFloat(hi), scale[1], sum);
  if (F::kMin) {
    sum = Fma(min[0], Set(static_cast<float>(-x.neg_sum_lo)), sum);
    sum = Fma(min[1], Set(static_cast<float>(-neg_hi)), sum);
  }
  return Fma(sum, Set(x.scale), acc);
}

template <class F>
constexpr int kScaleBytes = kLanes * (F::kFine ? 2 : 1) * (F::kMin ? 2 : 1) * (F::kWide ? 4 : 2);

template <class F>
constexpr int kGroupBytes = kScaleBytes<F> + kLanes * 4 * F::kBits;

template <int kRows>
SGL_INLINE void AddMiddles(VF* acc, VF sum, const float* middles, int64_t stride) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc[r] = Fma(sum, Set(middles[r * stride]), acc[r]);
}

constexpr int kAhead = 2048;  // bytes of weights asked for before they are needed

// kCentered: blocks have middles (see kernels.h). middle * sum(weights) is added first; the sums of
// weights are taken once for all rows.
template <class F, int kRows, bool kCentered>
SGL_INLINE void Tile(const MatmulArgs& a, const uint8_t* data, int64_t row, VF* acc) {
  const QBlock* x = static_cast<const QBlock*>(a.x) + row * a.x_stride;
  const float* middles = kCentered ? a.middles + row * a.middle_stride : nullptr;
  const int64_t stride = a.x_stride;
  const int64_t groups = a.w->k / 32;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc[r] = Zero();
  for (int64_t g = 0; g < groups; ++g) {
    WV w[8];
    const uint8_t* scales = data + g * kGroupBytes<F>;
    if (kRows > 4) {
      // With few rows the loads themselves run far enough ahead.
#pragma GCC unroll 16
      for (int at = 0; at < kGroupBytes<F>; at += 64) __builtin_prefetch(scales + kAhead + at);
    }
    Unpack<F::kBits>(scales + kScaleBytes<F>, w);
    if constexpr (F::kFine) {
      constexpr int kStep = F::kMin ? 2 : 1;
      const VF scale[2] = {LoadScale<F::kWide>(scales, 0), LoadScale<F::kWide>(scales, kStep)};
      VF min[2] = {};
      if (F::kMin) {
        min[0] = LoadScale<F::kWide>(scales, 1);
        min[1] = LoadScale<F::kWide>(scales, kStep + 1);
      }
      if (kCentered) {
        VF sum = Mul(WeightSum<F, 0, 4>(w), scale[0]);
        sum = Fma(WeightSum<F, 4, 4>(w), scale[1], sum);
        if (F::kMin) sum = Fma(Add(min[0], min[1]), Set(16.0f), sum);
        AddMiddles<kRows>(acc, sum, middles + g, a.middle_stride);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        acc[r] = GroupsOf16<F>(acc[r], w, scale, min, x[r * stride + g]);
      }
    } else {
      const VF scale = LoadScale<F::kWide>(scales, 0);
      const VF min = F::kMin ? LoadScale<F::kWide>(scales, 1) : Zero();
      if (kCentered) {
        AddMiddles<kRows>(acc, Mul(WeightSum<F, 0, 8>(w), scale), middles + g, a.middle_stride);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        acc[r] = GroupOf32<F>(acc[r], w, scale, min, x[r * stride + g]);
      }
    }
  }
}

template <class F, int kRows>
void Rows(const MatmulArgs& a, const uint8_t* tile_data, int64_t row, int64_t feature) {
  VF acc[kRows];
  if (a.middles == nullptr) {
    Tile<F, kRows, false>(a, tile_data, row, acc);
  } else {
    Tile<F, kRows, true>(a, tile_data, row, acc);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) WriteTile(a, row + r, feature, acc[r]);
}

// Exactly `rows` <= 8 rows: a tile is unpacked once for all of them.
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
      return Rows < F, kRowTile<5 ? kRowTile : 5>(a, data, row, feature);
    case 6:
      return Rows < F, kRowTile<6 ? kRowTile : 6>(a, data, row, feature);
    case 7:
      return Rows < F, kRowTile<7 ? kRowTile : 7>(a, data, row, feature);
    default:
      return Rows<F, kRowTile>(a, data, row, feature);
  }
}

template <class F>
void Matmul(const MatmulArgs& a, int64_t row_begin, int64_t row_end, int64_t tile_begin,
            int64_t tile_end) {
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const uint8_t* data = a.w->data + tile * a.w->tile_bytes;
    for (int64_t row = row_begin; row < row_end; row += kRowTile) {
      FewRows<F>(a, data, row, Smaller<int64_t>(kRowTile, row_end - row), tile * kLanes);
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
