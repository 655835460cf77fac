// GCC vector extensions, 16 bytes wide, as every 64-bit CPU has them: 4 floats. With NEON + dotprod
// (aarch64) the fused multiply-add and the integer dot product use the unit; the rest is the
// compiler's.
#pragma once

#include <cstdint>

#if defined(SGL_NEON)
#include <arm_neon.h>
#endif

#define SGL_INLINE static inline __attribute__((always_inline))

namespace sgl::SGL_ISA {

constexpr int kLanes = 4;
constexpr int kRowTile = 4;
typedef float VF __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));
typedef uint8_t WV __attribute__((vector_size(16)));

SGL_INLINE VF Load(const float* p) {
  VF v;
  __builtin_memcpy(&v, p, 16);
  return v;
}
SGL_INLINE void Store(float* p, VF v) { __builtin_memcpy(p, &v, 16); }
SGL_INLINE VF Set(float f) { return VF{f, f, f, f}; }
SGL_INLINE VF Zero() { return VF{}; }
SGL_INLINE VF Add(VF a, VF b) { return a + b; }
SGL_INLINE VF Sub(VF a, VF b) { return a - b; }
SGL_INLINE VF Mul(VF a, VF b) { return a * b; }
SGL_INLINE VF Div(VF a, VF b) { return a / b; }
SGL_INLINE VF Max(VF a, VF b) { return a > b ? a : b; }
SGL_INLINE VF Min(VF a, VF b) { return a < b ? a : b; }
SGL_INLINE VF AsFloat(VI a) { return reinterpret_cast<VF>(a); }
SGL_INLINE VF Abs(VF a) { return AsFloat(reinterpret_cast<VI>(a) & 0x7fffffff); }
#if defined(SGL_NEON)
SGL_INLINE VF Fma(VF a, VF b, VF c) {
  return reinterpret_cast<VF>(vfmaq_f32(reinterpret_cast<float32x4_t>(c),
                                        reinterpret_cast<float32x4_t>(a),
                                        reinterpret_cast<float32x4_t>(b)));
}
#else
SGL_INLINE VF Fma(VF a, VF b, VF c) { return a * b + c; }
#endif
SGL_INLINE VI ToInt(VF a) {
  // Adding 1.5 * 2^23 rounds to nearest even; |a| < 2^22 in all uses.
  const VF magic = Set(12582912.0f);
  return reinterpret_cast<VI>(a + magic) - 0x4b400000;
}
SGL_INLINE VF ToFloat(VI a) { return __builtin_convertvector(a, VF); }
SGL_INLINE VI SetI(int32_t i) { return VI{i, i, i, i}; }
SGL_INLINE VI AddI(VI a, VI b) { return a + b; }
template <int kBits>
SGL_INLINE VI ShiftLeft(VI a) {
  return a << kBits;
}
SGL_INLINE bool AnyGreater(VF a, VF b) {
  const VI m = a > b;
  int32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= m[i];
  return any != 0;
}
SGL_INLINE bool AnyNaN(VF a, VF b) {
  const VI m = (a != a) | (b != b);
  int32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= m[i];
  return any != 0;
}
SGL_INLINE bool AnyEqual(VF a, VF b) {
  const VI m = a == b;
  int32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= m[i];
  return any != 0;
}
SGL_INLINE VF KeepFrom(VF limit, VF x, VF v) { return x >= limit ? v : Zero(); }
SGL_INLINE VF Window(VF v, int begin, int end, float fill) {
  const VI lane = {0, 1, 2, 3};
  return ((lane >= begin) & (lane < end)) ? v : Set(fill);
}
#if defined(SGL_NEON)
SGL_INLINE VF LoadHalf(const uint16_t* p) {
  return reinterpret_cast<VF>(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))));
}
SGL_INLINE void StoreHalf(uint16_t* p, VF v) {
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(reinterpret_cast<float32x4_t>(v))));
}
#else
SGL_INLINE VF LoadHalf(const uint16_t* p) {
  const VI h = {p[0], p[1], p[2], p[3]};
  const VI shifted = (h & 0x7fff) << 13;
  // Times 2^112: moves the exponent, and makes subnormals normal. Infinity and NaN keep theirs.
  const VI finite = reinterpret_cast<VI>(AsFloat(shifted) * BitsFloat(0x77800000u));
  const VI special = (h & 0x7fff) >= 0x7c00;
  return AsFloat(((h & 0x8000) << 16) | (special & (shifted | 0x7f800000)) | (~special & finite));
}
SGL_INLINE void StoreHalf(uint16_t* p, VF v) {
  for (int i = 0; i < kLanes; ++i) p[i] = FloatToHalf(v[i]);
}
#endif
SGL_INLINE VF LoadBf16(const uint16_t* p) { return AsFloat(VI{p[0], p[1], p[2], p[3]} << 16); }
SGL_INLINE VF LoadI8(const int8_t* p) { return ToFloat(VI{p[0], p[1], p[2], p[3]}); }
SGL_INLINE void StoreI8(int8_t* p, VI v) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(v[i]);
}

// Halves folded onto each other until one lane is left.
SGL_INLINE float ReduceAdd(VF v) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v[i] += v[i + width];
  }
  return v[0];
}
SGL_INLINE float ReduceMax(VF v) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v[i] = v[i] > v[i + width] ? v[i] : v[i + width];
  }
  return v[0];
}

// Largest lane of `largest` and smallest of `smallest`.
SGL_INLINE void ReduceRange(VF largest, VF smallest, float* high, float* low) {
  *high = ReduceMax(largest);
  *low = -ReduceMax(-smallest);
}

// Sums of q[0..16) and q[16..32).
SGL_INLINE void SumHalves(const int8_t* q, int32_t* lo, int32_t* hi) {
  *lo = 0;
  *hi = 0;
  for (int i = 0; i < 16; ++i) {
    *lo += q[i];
    *hi += q[16 + i];
  }
}

// Larger of two |x| by their bits: NaN is larger than anything, and so is kept.
SGL_INLINE VF MaxMagnitude(VF a, VF b) {
  const VI x = reinterpret_cast<VI>(a) & 0x7fffffff;
  const VI y = reinterpret_cast<VI>(b) & 0x7fffffff;
  return AsFloat(x > y ? x : y);
}
SGL_INLINE float ReduceMagnitude(VF v) {
  const VI x = reinterpret_cast<VI>(v);
  int32_t top = x[0];
  for (int i = 1; i < kLanes; ++i) top = x[i] > top ? x[i] : top;
  return BitsFloat(static_cast<uint32_t>(top));
}

// ---- integer dot products over groups of 32 ----

SGL_INLINE WV LoadBytes(const uint8_t* p) {
  WV v;
  __builtin_memcpy(&v, p, 16);
  return v;
}
SGL_INLINE WV LowNibbles(WV v) { return v & 0xf; }
SGL_INLINE WV HighNibbles(WV v) { return v >> 4; }
template <int kShift, int kMask>
SGL_INLINE WV OrBits(WV base, WV v) {
  const WV moved = kShift >= 0 ? v << (kShift >= 0 ? kShift : 0) : v >> (kShift < 0 ? -kShift : 0);
  return base | (moved & static_cast<uint8_t>(kMask));
}
SGL_INLINE WV EightBits(WV v) { return v; }
constexpr int kEightBitZeroLog2 = -1;

template <int kBits, int kFirst, int kCount>
SGL_INLINE VI DotOfRow(VI init, const WV* w, const int8_t* a) {
#if defined(SGL_NEON)
  int32x4_t sum = reinterpret_cast<int32x4_t>(init);
#pragma GCC unroll 8
  for (int q = kFirst; q < kFirst + kCount; ++q) {
    int32_t quad;
    __builtin_memcpy(&quad, a + 4 * q, 4);
    sum =
        vdotq_s32(sum, reinterpret_cast<int8x16_t>(w[q]), vreinterpretq_s8_s32(vdupq_n_s32(quad)));
  }
  return reinterpret_cast<VI>(sum);
#else
  // Two products a 16-bit lane and quad: even and odd bytes. They pile up as long as they fit
  // (|a| <= 127; 4 bit: 8 quads, 5 bit: 4, 6 bit: 2, 8 bit signed: 1).
  typedef int16_t Words __attribute__((vector_size(16)));
  constexpr int kFits = kBits == 4 ? 8 : kBits == 5 ? 4 : kBits == 6 ? 2 : 1;
  constexpr int kPile = kFits < kCount ? kFits : kCount;
#pragma GCC unroll 8
  for (int q = kFirst; q < kFirst + kCount; q += kPile) {
    Words pile = {};
#pragma GCC unroll 8
    for (int i = q; i < q + kPile; ++i) {
      int32_t quad;
      __builtin_memcpy(&quad, a + 4 * i, 4);
      const Words x = reinterpret_cast<Words>(SetI(quad));
      const Words bytes = reinterpret_cast<Words>(w[i]);
      pile += (bytes << 8 >> 8) * (x << 8 >> 8) + (bytes >> 8) * (x >> 8);
    }
    const VI pairs = reinterpret_cast<VI>(pile);
    init += (pairs << 16 >> 16) + (pairs >> 16);
  }
  return init;
#endif
}

SGL_INLINE void Park(WV*) {}
template <int kBits>
constexpr int kDotRows = 1;

// sum[r] += the dot products of quads [kFirst, kFirst + kCount) with 4 activations each of row r,
// exact. Rows lie a_stride bytes apart.
template <int kBits, int kFirst, int kCount, int kRows>
SGL_INLINE void Dot(VI* sum, const WV* w, const int8_t* a, int64_t a_stride) {
  for (int r = 0; r < kRows; ++r) {
    sum[r] = DotOfRow<kBits, kFirst, kCount>(sum[r], w, a + r * a_stride);
  }
}

// Calls use(d, v) for d = 0, 1, ... below count with lane i of v = element d of rows[i].
template <DType kType, class F>
SGL_INLINE void EachElement(const uint8_t* const* rows, int count, F use) {
  for (int d = 0; d < count; ++d) {
    VF v;
    for (int i = 0; i < kLanes; ++i) {
      const uint8_t* p = rows[i] + d * SizeOf(kType);
      float f;
      uint16_t h;
      if (kType == DType::kF32) {
        __builtin_memcpy(&f, p, 4);
      } else if (kType == DType::kI8) {
        f = static_cast<int8_t>(*p);
      } else {
        __builtin_memcpy(&h, p, 2);
        f = kType == DType::kF16 ? HalfToFloat(h) : Bf16ToFloat(h);
      }
      v[i] = f;
    }
    use(d, v);
  }
}

}  // namespace sgl::SGL_ISA
