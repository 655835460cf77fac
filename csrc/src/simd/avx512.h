// AVX-512 F/BW/VL/DQ + VNNI: 16 floats, vpdpbusd.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define SGL_INLINE static inline __attribute__((always_inline))

namespace sgl::SGL_ISA {

constexpr int kLanes = 16;
constexpr int kRowTile = 16;  // rows of the widest matmul tile
using VF = __m512;
using VI = __m512i;
using WV = __m512i;  // kLanes * 4 bytes of weights

SGL_INLINE VF Load(const float* p) { return _mm512_loadu_ps(p); }
SGL_INLINE void Store(float* p, VF v) { _mm512_storeu_ps(p, v); }
SGL_INLINE VF Set(float f) { return _mm512_set1_ps(f); }
SGL_INLINE VF Zero() { return _mm512_setzero_ps(); }
SGL_INLINE VF Add(VF a, VF b) { return _mm512_add_ps(a, b); }
SGL_INLINE VF Sub(VF a, VF b) { return _mm512_sub_ps(a, b); }
SGL_INLINE VF Mul(VF a, VF b) { return _mm512_mul_ps(a, b); }
SGL_INLINE VF Div(VF a, VF b) { return _mm512_div_ps(a, b); }
SGL_INLINE VF Max(VF a, VF b) { return _mm512_max_ps(a, b); }
SGL_INLINE VF Min(VF a, VF b) { return _mm512_min_ps(a, b); }
SGL_INLINE VF Abs(VF a) { return _mm512_abs_ps(a); }
SGL_INLINE VF Fma(VF a, VF b, VF c) { return _mm512_fmadd_ps(a, b, c); }
SGL_INLINE VI ToInt(VF a) { return _mm512_cvtps_epi32(a); }
SGL_INLINE VF ToFloat(VI a) { return _mm512_cvtepi32_ps(a); }
SGL_INLINE VI SetI(int32_t i) { return _mm512_set1_epi32(i); }
SGL_INLINE VI AddI(VI a, VI b) { return _mm512_add_epi32(a, b); }
template <int kBits>
SGL_INLINE VI ShiftLeft(VI a) {
  return _mm512_slli_epi32(a, kBits);
}
SGL_INLINE VF AsFloat(VI a) { return _mm512_castsi512_ps(a); }
SGL_INLINE bool AnyGreater(VF a, VF b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
SGL_INLINE bool AnyNaN(VF a, VF b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0; }
SGL_INLINE bool AnyEqual(VF a, VF b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ) != 0; }
// v where x >= limit, else 0.
SGL_INLINE VF KeepFrom(VF limit, VF x, VF v) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_GE_OQ), v);
}
// Lane i of v if begin <= i < end, else fill.
SGL_INLINE VF Window(VF v, int begin, int end, float fill) {
  const uint32_t below_end = end >= 16 ? 0xffffu : end <= 0 ? 0u : (1u << end) - 1;
  const uint32_t below_begin = begin >= 16 ? 0xffffu : begin <= 0 ? 0u : (1u << begin) - 1;
  return _mm512_mask_blend_ps(static_cast<__mmask16>(below_end & ~below_begin), Set(fill), v);
}
SGL_INLINE VF LoadHalf(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
SGL_INLINE VF LoadBf16(const uint16_t* p) {
  const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return AsFloat(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
SGL_INLINE void StoreHalf(uint16_t* p, VF v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SGL_INLINE VF LoadI8(const int8_t* p) {
  return ToFloat(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
SGL_INLINE void StoreI8(int8_t* p, VI v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}

// Halves folded onto each other until one lane is left.
SGL_INLINE float ReduceAdd(VF v) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
SGL_INLINE float ReduceMax(VF v) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

// Largest lane of `largest` and smallest of `smallest`.
SGL_INLINE void ReduceRange(VF largest, VF smallest, float* high, float* low) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(largest),
                                 _mm512_extractf32x8_ps(largest, 1));
  const __m256 s = _mm256_min_ps(_mm512_castps512_ps256(smallest),
                                 _mm512_extractf32x8_ps(smallest, 1));
  const __m256 less = _mm256_xor_ps(_mm256_set1_ps(-0.0f), s);
  __m256 m = _mm256_max_ps(_mm256_permute2f128_ps(h, less, 0x20),
                           _mm256_permute2f128_ps(h, less, 0x31));
  m = _mm256_max_ps(m, _mm256_permute_ps(m, 0x4e));
  m = _mm256_max_ps(m, _mm256_permute_ps(m, 0xb1));
  *high = _mm_cvtss_f32(_mm256_castps256_ps128(m));
  *low = -_mm_cvtss_f32(_mm256_extractf128_ps(m, 1));
}

// Sums of q[0..16) and q[16..32).
SGL_INLINE void SumHalves(const int8_t* q, int32_t* lo, int32_t* hi) {
  // Loads as wide as the stores before them, which then don't have to wait.
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q + 16));
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
  return AsFloat(_mm512_max_epi32(_mm512_castps_si512(Abs(a)), _mm512_castps_si512(Abs(b))));
}
SGL_INLINE float ReduceMagnitude(VF v) {
  const __m512i w = _mm512_castps_si512(v);
  const __m256i h = _mm256_max_epi32(_mm512_castsi512_si256(w), _mm512_extracti64x4_epi64(w, 1));
  __m128i q = _mm_max_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  q = _mm_max_epi32(q, _mm_unpackhi_epi64(q, q));
  q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 1));
  return _mm_cvtss_f32(_mm_castsi128_ps(q));
}

// ---- integer dot products over groups of 32 ----

SGL_INLINE WV LoadBytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
SGL_INLINE WV LowNibbles(WV v) { return _mm512_and_si512(v, _mm512_set1_epi8(0xf)); }
SGL_INLINE WV HighNibbles(WV v) { return LowNibbles(_mm512_srli_epi16(v, 4)); }
// Bits of `v` moved left by kShift (right if negative), masked to kMask, put on top of `base`.
template <int kShift, int kMask>
SGL_INLINE WV OrBits(WV base, WV v) {
  const WV moved = kShift >= 0 ? _mm512_slli_epi16(v, kShift >= 0 ? kShift : 0)
                               : _mm512_srli_epi16(v, kShift < 0 ? -kShift : 0);
  // base | (moved & mask)
  return _mm512_ternarylogic_epi32(base, moved, _mm512_set1_epi8(kMask), 0xf8);
}
// Stored q - 128 as the unit wants it; the zero point that Dot then leaves in its result.
SGL_INLINE WV EightBits(WV v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }
constexpr int kEightBitZeroLog2 = 7;

SGL_INLINE void Park(WV*) {}
template <int kBits>
constexpr int kDotRows = 1;  // the unit takes activations from memory: rows share nothing

// sum[r] += the dot products of quads [kFirst, kFirst + kCount) with 4 activations each of row r,
// exact. Rows lie a_stride bytes apart.
template <int kBits, int kFirst, int kCount, int kRows>
SGL_INLINE void Dot(VI* sum, const WV* w, const int8_t* a, int64_t a_stride) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    VI even = sum[r];
    VI odd = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int q = kFirst; q < kFirst + kCount; ++q) {
      int32_t quad;
      __builtin_memcpy(&quad, a + r * a_stride + 4 * q, 4);
      if (q % 2 == 0) {
        even = _mm512_dpbusd_epi32(even, w[q], _mm512_set1_epi32(quad));
      } else {
        odd = _mm512_dpbusd_epi32(odd, w[q], _mm512_set1_epi32(quad));
      }
    }
    sum[r] = _mm512_add_epi32(even, odd);
  }
}

// ---- 16 x 16 transpose of 16-bit elements: out[d] holds element d of 16 rows ----
SGL_INLINE void Transpose16(__m256i* r) {
  __m256i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm256_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      r[4 * i + 2 * j] = _mm256_unpacklo_epi32(t[4 * i + j], t[4 * i + 2 + j]);
      r[4 * i + 2 * j + 1] = _mm256_unpackhi_epi32(t[4 * i + j], t[4 * i + 2 + j]);
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      t[8 * i + 2 * j] = _mm256_unpacklo_epi64(r[8 * i + j], r[8 * i + 4 + j]);
      t[8 * i + 2 * j + 1] = _mm256_unpackhi_epi64(r[8 * i + j], r[8 * i + 4 + j]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    r[j] = _mm256_permute2x128_si256(t[j], t[8 + j], 0x20);
    r[8 + j] = _mm256_permute2x128_si256(t[j], t[8 + j], 0x31);
  }
}

// Sixteen elements of a row as 16-bit lanes: halves as they are, int8 widened.
template <DType kType>
SGL_INLINE __m256i LoadRow(const uint8_t* row, int d) {
  if (kType == DType::kI8) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + d)));
  }
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 2 * d));
}

template <DType kType>
SGL_INLINE VF FromWords(__m256i v) {
  if (kType == DType::kF16) return _mm512_cvtph_ps(v);
  if (kType == DType::kI8) return ToFloat(_mm512_cvtepi16_epi32(v));
  return AsFloat(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}

// Calls use(d, v) for d = 0, 1, ... below count with lane i of v = element d of rows[i]. count % 16
// == 0.
template <DType kType, class F>
SGL_INLINE void EachElement(const uint8_t* const* rows, int count, F use) {
  if (kType == DType::kF32) {
    for (int d = 0; d < count; ++d) {
      float lane[16];
      for (int i = 0; i < 16; ++i) __builtin_memcpy(lane + i, rows[i] + 4 * d, 4);
      use(d, Load(lane));
    }
    return;
  }
  for (int d = 0; d < count; d += 16) {
    __m256i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = LoadRow<kType>(rows[i], d);
    Transpose16(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) use(d + i, FromWords<kType>(r[i]));
  }
}

}  // namespace sgl::SGL_ISA
