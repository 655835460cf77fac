// The SIMD vocabulary of the instruction set being compiled, and what is built on top of it.
// Included by src/kernels/*.cc only; each is compiled once per instruction set into its own
// namespace. These files use no standard library templates: the linker could otherwise pick a copy
// compiled for a newer CPU.
#pragma once

#include "half.h"
#include "sgl/tensor.h"

#if defined(SGL_AVX512)
#include "simd/avx512.h"
#elif defined(SGL_AVX2)
#include "simd/avx2.h"
#else
#include "simd/portable.h"
#endif

namespace sgl::SGL_ISA {

// e^x: 2^n * p(r), |r| <= ln2 / 2, degree 6 Taylor-like minimax; relative error below 2e-7. Exactly
// 1 at 0; below -87 it returns about 1e-38 (mask first where 0 is needed).
SGL_INLINE VF Exp(VF x) {
  x = Min(Max(x, Set(-87.0f)), Set(88.0f));
  const VI n = ToInt(Mul(x, Set(1.44269504f)));
  const VF nf = ToFloat(n);
  VF r = Fma(nf, Set(-0.693359375f), x);
  r = Fma(nf, Set(2.12194440e-4f), r);
  VF p = Set(1.9875691500e-4f);
  p = Fma(p, r, Set(1.3981999507e-3f));
  p = Fma(p, r, Set(8.3334519073e-3f));
  p = Fma(p, r, Set(4.1665795894e-2f));
  p = Fma(p, r, Set(1.6666665459e-1f));
  p = Fma(p, r, Set(5.0000001201e-1f));
  p = Fma(Mul(p, r), r, Add(r, Set(1.0f)));
  return Mul(p, AsFloat(ShiftLeft<23>(AddI(n, SetI(127)))));
}

SGL_INLINE VF Tanh(VF x) {
  // 1 - 2 / (e^2x + 1), x kept where the result is not yet 1.
  const VF c = Min(Max(x, Set(-10.0f)), Set(10.0f));
  return Sub(Set(1.0f), Div(Set(2.0f), Add(Exp(Add(c, c)), Set(1.0f))));
}

template <DType kType>
SGL_INLINE VF LoadAs(const void* base, int64_t index) {
  if (kType == DType::kF32) return Load(static_cast<const float*>(base) + index);
  if (kType == DType::kI8) return LoadI8(static_cast<const int8_t*>(base) + index);
  const uint16_t* p = static_cast<const uint16_t*>(base) + index;
  return kType == DType::kF16 ? LoadHalf(p) : LoadBf16(p);
}

template <class T>
SGL_INLINE T Smaller(T a, T b) {
  return a < b ? a : b;
}

template <class T>
SGL_INLINE T Larger(T a, T b) {
  return a > b ? a : b;
}

}  // namespace sgl::SGL_ISA
