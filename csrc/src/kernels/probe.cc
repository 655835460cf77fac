// Loops that only multiply and add: the speed of the units, to compare kernels with.
#include "kernels/table.h"

namespace sgl::SGL_ISA {

float ProbeInt8(int64_t rounds) {
  constexpr int kChains = 8;
  int8_t x[kChains][32];
  uint8_t bytes[8 * kLanes * 4];
  for (int i = 0; i < kChains * 32; ++i) x[i / 32][i % 32] = static_cast<int8_t>(i % 7 - 3);
  for (int i = 0; i < 8 * kLanes * 4; ++i) bytes[i] = static_cast<uint8_t>(i % 16);
  WV w[8];
  VI acc[kChains];
  for (int q = 0; q < 8; ++q) w[q] = LoadBytes(bytes + q * kLanes * 4);
  for (int c = 0; c < kChains; ++c) acc[c] = SetI(0);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) Dot<4, 0, 8, 1>(acc + c, w, x[c], 0);
    __asm__ volatile("" ::: "memory");
  }
  VI sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = AddI(sum, acc[c]);
  return ReduceAdd(ToFloat(sum));
}

float ProbeF32(int64_t rounds) {
  constexpr int kChains = 12;
  float x = 0.5f;
  VF acc[kChains];
  for (int c = 0; c < kChains; ++c) acc[c] = Set(static_cast<float>(c));
  for (int64_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+m"(x));
    const VF v = Set(x);
#pragma GCC unroll 32
    for (int k = 0; k < 32; ++k) {
#pragma GCC unroll 12
      for (int c = 0; c < kChains; ++c) acc[c] = Fma(acc[c], v, v);
    }
  }
  VF sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = Add(sum, acc[c]);
  return ReduceAdd(sum);
}

}  // namespace sgl::SGL_ISA
