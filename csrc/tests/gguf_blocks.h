// Random GGUF rows for tests: any bytes are valid blocks once their float16 scales are tame.
#pragma once

#include "check.h"
#include "half.h"
#include "sgl/pack.h"

namespace sgl::test {

constexpr GgufType kQuantTypes[] = {
    GgufType::kQ4_0, GgufType::kQ4_1, GgufType::kQ5_0, GgufType::kQ5_1, GgufType::kQ8_0,
    GgufType::kQ2_K, GgufType::kQ3_K, GgufType::kQ4_K, GgufType::kQ5_K, GgufType::kQ6_K};
constexpr GgufType kDenseTypes[] = {GgufType::kF32, GgufType::kF16, GgufType::kBf16};

struct Layout {
  int64_t bytes;
  std::vector<int> halves;  // offsets of float16 fields
};

inline Layout BlockLayout(GgufType type) {
  switch (type) {
    case GgufType::kQ4_0:
      return {18, {0}};
    case GgufType::kQ4_1:
      return {20, {0, 2}};
    case GgufType::kQ5_0:
      return {22, {0}};
    case GgufType::kQ5_1:
      return {24, {0, 2}};
    case GgufType::kQ8_0:
      return {34, {0}};
    case GgufType::kQ2_K:
      return {84, {80, 82}};
    case GgufType::kQ3_K:
      return {110, {108}};
    case GgufType::kQ4_K:
      return {144, {0, 2}};
    case GgufType::kQ5_K:
      return {176, {0, 2}};
    case GgufType::kQ6_K:
      return {210, {208}};
    default:
      return {0, {}};
  }
}

inline std::vector<uint8_t> RandomRows(GgufType type, int64_t n, int64_t k, Random& rng) {
  const int64_t row_bytes = GgufRowBytes(type, k);
  std::vector<uint8_t> out(static_cast<size_t>(n * row_bytes));
  if (type == GgufType::kF32) {
    for (int64_t i = 0; i < n * k; ++i) {
      const float f = rng.Normal();
      std::memcpy(out.data() + i * 4, &f, 4);
    }
    return out;
  }
  if (type == GgufType::kF16 || type == GgufType::kBf16) {
    for (int64_t i = 0; i < n * k; ++i) {
      const float f = rng.Normal();
      const uint16_t h = type == GgufType::kF16 ? FloatToHalf(f) : FloatToBf16(f);
      std::memcpy(out.data() + i * 2, &h, 2);
    }
    return out;
  }
  const Layout layout = BlockLayout(type);
  for (uint8_t& b : out) b = static_cast<uint8_t>(rng.Int(256));
  for (size_t block = 0; block < out.size(); block += static_cast<size_t>(layout.bytes)) {
    for (int offset : layout.halves) {
      const uint16_t h = FloatToHalf(rng.Normal() * 0.01f);
      std::memcpy(out.data() + block + static_cast<size_t>(offset), &h, 2);
    }
  }
  return out;
}

}  // namespace sgl::test
