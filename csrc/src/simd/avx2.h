// AVX2 + FMA + F16C: 8 floats, vpmaddubsw.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define SGL_INLINE static inline __attribute__((always_inline))

namespace sgl::SGL_ISA {

constexpr int kLanes = 8;
constexpr int kRowTile = 8;
using VF = __m256;
using VI = __m256i;
using WV = __m256i;

SGL_INLINE VF Load(const float* p) { return _mm256_loadu_ps(p); }
SGL_INLINE void Store(float* p, VF v) { _mm256_storeu_ps(p, v); }
SGL_INLINE VF Set(float f) { return _mm256_set1_ps(f); }
SGL_INLINE VF Zero() { return _mm256_setzero_ps(); }
SGL_INLINE VF Add(VF a, VF b) { return _mm256_add_ps(a, b); }
SGL_INLINE VF Sub(VF a, VF b) { return _mm256_sub_ps(a, b); }
SGL_INLINE VF Mul(VF a, VF b) { return _mm256_mul_ps(a, b); }
SGL_INLINE VF Div(VF a, VF b) { return _mm256_div_ps(a, b); }
SGL_INLINE VF Max(VF a, VF b) { return _mm256_max_ps(a, b); }
SGL_INLINE VF Min(VF a, VF b) { return _mm256_min_ps(a, b); }
SGL_INLINE VF Abs(VF a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
SGL_INLINE VF Fma(VF a, VF b, VF c) { return _mm256_fmadd_ps(a, b, c); }
SGL_INLINE VI ToInt(VF a) { return _mm256_cvtps_epi32(a); }
SGL_INLINE VF ToFloat(VI a) { return _mm256_cvtepi32_ps(a); }
SGL_INLINE VI SetI(int32_t i) { return _mm256_set1_epi32(i); }
SGL_INLINE VI AddI(VI a, VI b) { return _mm256_add_epi32(a, b); }
template <int kBits>
SGL_INLINE VI ShiftLeft(VI a) {
  return _mm256_slli_epi32(a, kBits);
}
SGL_INLINE VF AsFloat(VI a) { return _mm256_castsi256_ps(a); }
SGL_INLINE bool AnyGreater(VF a, VF b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0;
}
SGL_INLINE bool AnyNaN(VF a, VF b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0;
}
SGL_INLINE bool AnyEqual(VF a, VF b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)) != 0;
}
SGL_INLINE VF KeepFrom(VF limit, VF x, VF v) {
  return _mm256_and_ps(_mm256_cmp_ps(x, limit, _CMP_GE_OQ), v);
}
SGL_INLINE VF Window(VF v, int begin, int end, float fill) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i keep = _mm256_andnot_si256(_mm256_cmpgt_epi32(SetI(begin), lane),
                                           _mm256_cmpgt_epi32(SetI(end), lane));
  return _mm256_blendv_ps(Set(fill), v, AsFloat(keep));
}
SGL_INLINE VF LoadHalf(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
SGL_INLINE VF LoadBf16(const uint16_t* p) {
  const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return AsFloat(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
SGL_INLINE void StoreHalf(uint16_t* p, VF v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SGL_INLINE VF LoadI8(const int8_t* p) {
  return ToFloat(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
SGL_INLINE void StoreI8(int8_t* p, VI v) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

// Halves folded onto each other until one lane is left.
SGL_INLINE float ReduceAdd(VF v) {
  const __m256 h = v;
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
SGL_INLINE float ReduceMax(VF v) {
  const __m256 h = v;
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

// Largest lane of `largest` and smallest of `smallest`.
SGL_INLINE void ReduceRange(VF largest, VF smallest, float* high, float* low) {
  const __m256 less = _mm256_xor_ps(_mm256_set1_ps(-0.0f), smallest);
  __m256 m = _mm256_max_ps(_mm256_permute2f128_ps(largest, less, 0x20),
                           _mm256_permute2f128_ps(largest, less, 0x31));
  m = _mm256_max_ps(m, _mm256_permute_ps(m, 0x4e));
  m = _mm256_max_ps(m, _mm256_permute_ps(m, 0xb1));
  *high = _mm_cvtss_f32(_mm256_castps256_ps128(m));
  *low = -_mm_cvtss_f32(_mm256_extractf128_ps(m, 1));
}

// Sums of q[0..16) and q[16..32).
SGL_INLINE void SumHalves(const int8_t* q, int32_t* lo, int32_t* hi) {
  // Loads as wide as the stores before them, which then don't have to wait.
  const __m128i* eight = reinterpret_cast<const __m128i*>(q);
  const __m128i a = _mm_unpacklo_epi64(_mm_loadl_epi64(eight),
                                       _mm_loadl_epi64(reinterpret_cast<const __m128i*>(q + 8)));
  const __m128i b = _mm_unpacklo_epi64(_mm_loadl_epi64(eight + 1),
                                       _mm_loadl_epi64(reinterpret_cast<const __m128i*>(q + 24)));
  // As unsigned bytes, 128 too high each.
  const __m128i top = _mm_set1_epi8(-128);
  const __m128i x = _mm_sad_epu8(_mm_xor_si128(a, top), _mm_setzero_si128());
  const __m128i y = _mm_sad_epu8(_mm_xor_si128(b, top), _mm_setzero_si128());
  const __m128i sums = _mm_add_epi32(_mm_unpacklo_epi64(x, y), _mm_unpackhi_epi64(x, y));
  *lo = _mm_cvtsi128_si32(sums) - 16 * 128;
  *hi = _mm_extract_epi32(sums, 2) - 16 * 128;
}

// Larger of two |x| by their bits: NaN is larger than anything, and so is kept.
SGL_INLINE VF MaxMagnitude(VF a, VF b) {
  return AsFloat(_mm256_max_epi32(_mm256_castps_si256(Abs(a)), _mm256_castps_si256(Abs(b))));
}
SGL_INLINE float ReduceMagnitude(VF v) {
  const __m256i h = _mm256_castps_si256(v);
  __m128i q = _mm_max_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  q = _mm_max_epi32(q, _mm_unpackhi_epi64(q, q));
  q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 1));
  return _mm_cvtss_f32(_mm_castsi128_ps(q));
}

// ---- integer dot products over groups of 32 ----

SGL_INLINE WV LoadBytes(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
SGL_INLINE WV LowNibbles(WV v) { return _mm256_and_si256(v, _mm256_set1_epi8(0xf)); }
SGL_INLINE WV HighNibbles(WV v) { return LowNibbles(_mm256_srli_epi16(v, 4)); }
template <int kShift, int kMask>
SGL_INLINE WV OrBits(WV base, WV v) {
  const WV moved = kShift >= 0 ? _mm256_slli_epi16(v, kShift >= 0 ? kShift : 0)
                               : _mm256_srli_epi16(v, kShift < 0 ? -kShift : 0);
  return _mm256_or_si256(base, _mm256_and_si256(moved, _mm256_set1_epi8(kMask)));
}
SGL_INLINE WV EightBits(WV v) { return v; }
constexpr int kEightBitZeroLog2 = -1;

// vpmaddubsw saturates at 2^15: with q < 2^kBits and |a| <= 127 this many of its results fit a
// 16-bit lane before they must be widened (4 bit 8, 5 bit 4, 6 bit 2).
template <int kBits>
constexpr int kPile = kBits == 4   ? 8
                      : kBits == 5 ? 4
                      : kBits == 6 ? 2
                                   : 1;

SGL_INLINE WV BroadcastQuad(const int8_t* a) {
  int32_t quad;
  __builtin_memcpy(&quad, a, 4);
  return _mm256_set1_epi32(quad);
}

// A load of weights serves this many rows. Wider ones need more registers, and win nothing.
template <int kBits>
constexpr int kDotRows = kBits == 4 ? 4 : 1;

// Leaves unpacked weights in memory: they and the sums of four rows don't fit 16 registers.
SGL_INLINE void Park(WV* w) { __asm__ volatile("" : : "r"(w) : "memory"); }

// sum[r] += the dot products of quads [kFirst, kFirst + kCount) with 4 activations each of row r,
// exact. Rows lie a_stride bytes apart.
template <int kBits, int kFirst, int kCount, int kRows>
SGL_INLINE void Dot(VI* sum, const WV* w, const int8_t* a, int64_t a_stride) {
  const __m256i ones = _mm256_set1_epi16(1);
  constexpr int kStep = kPile<kBits> < kCount ? kPile<kBits> : kCount;
#pragma GCC unroll 8
  for (int q = kFirst; q < kFirst + kCount; q += kStep) {
    __m256i pile[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kStep; ++i) {
      const __m256i weights = w[q + i];
      const __m256i magnitude = _mm256_abs_epi8(weights);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m256i quad = BroadcastQuad(a + r * a_stride + 4 * (q + i));
        // Signed weights: move their sign to the activations; 128 * 127 * 2 still fits.
        const __m256i part =
            kBits == 8 ? _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(quad, weights))
                       : _mm256_maddubs_epi16(weights, quad);
        pile[r] = i == 0 ? part : _mm256_add_epi16(pile[r], part);
        // Sums in this order, or the compiler holds so many of them that it has to spill.
        if (kRows > 1) __asm__("" : "+x"(pile[r]));
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(pile[r], ones));
    }
  }
}

// Eight elements of a row as floats.
template <DType kType>
SGL_INLINE VF LoadRow(const uint8_t* row, int d) {
  if (kType == DType::kF32) return Load(reinterpret_cast<const float*>(row) + d);
  if (kType == DType::kI8) return LoadI8(reinterpret_cast<const int8_t*>(row) + d);
  const uint16_t* p = reinterpret_cast<const uint16_t*>(row) + d;
  return kType == DType::kF16 ? LoadHalf(p) : LoadBf16(p);
}

// Calls use(d, v) for d = 0, 1, ... below count with lane i of v = element d of rows[i]. count % 16
// == 0.
template <DType kType, class F>
SGL_INLINE void EachElement(const uint8_t* const* rows, int count, F use) {
  for (int d = 0; d < count; d += 8) {
    __m256 r[8];
    __m256 t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = LoadRow<kType>(rows[i], d);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const __m256 a = t[4 * i + j];
        const __m256 b = t[4 * i + 2 + j];
        r[4 * i + 2 * j] = _mm256_shuffle_ps(a, b, 0x44);
        r[4 * i + 2 * j + 1] = _mm256_shuffle_ps(a, b, 0xee);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) use(d + i, _mm256_permute2f128_ps(r[i], r[4 + i], 0x20));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) use(d + 4 + i, _mm256_permute2f128_ps(r[i], r[4 + i], 0x31));
  }
}

}  // namespace sgl::SGL_ISA
