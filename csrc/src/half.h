// float16 and bfloat16 bits <-> float, without hardware support. Rounds to nearest even.
#pragma once

#include <cstdint>
#include <cstring>

namespace sgl {

static inline uint32_t FloatBits(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  return u;
}

static inline float BitsFloat(uint32_t u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}

static inline float HalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t mag = h & 0x7fffu;
  if (mag >= 0x7c00u) return BitsFloat(sign | 0x7f800000u | ((mag & 0x3ffu) << 13));
  // Scaling by a power of two turns subnormals into normal floats exactly.
  const float f = BitsFloat(mag << 13) * BitsFloat(0x77800000u);
  return BitsFloat(sign | FloatBits(f));
}

static inline uint16_t FloatToHalf(float f) {
  const uint32_t u = FloatBits(f);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t mag = u & 0x7fffffffu;
  if (mag > 0x7f800000u) return sign | 0x7e00u;
  if (mag >= 0x477ff000u) return sign | 0x7c00u;
  if (mag < 0x38800000u) {  // subnormal half: let the float adder round at the right bit
    const float shifted = BitsFloat(mag) + 0.5f;
    return static_cast<uint16_t>(sign | (FloatBits(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = mag + 0xfffu + ((mag >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

static inline float Bf16ToFloat(uint16_t h) { return BitsFloat(static_cast<uint32_t>(h) << 16); }

static inline uint16_t FloatToBf16(float f) {
  const uint32_t u = FloatBits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

}  // namespace sgl
