// Plain records that kernels exchange: packed weights, quantised activations, storage types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sgl {

// Storage of dense weights and of the KV pool.
enum class DType : int32_t { kF32 = 0, kF16 = 1, kBf16 = 2, kI8 = 3 };  // kI8: KV pools only

constexpr int64_t SizeOf(DType t) { return t == DType::kF32 ? 4 : t == DType::kI8 ? 1 : 2; }

// Tensor types of GGUF files, by their number in the file.
enum class GgufType : int32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBf16 = 30,
};

// How a packed weight is stored. Quantised: value = scale * (q - zero) [+ min], q unsigned.
enum class Format : int32_t {
  kF32,
  kF16,
  kBf16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K
};

struct FormatSpec {
  int bits;         // bits of one stored integer: 4, 5, 6 or 8
  int group;        // weights that share a scale: 32 or 16
  int zero_log2;    // zero point is 1 << zero_log2; -1 = no zero point
  bool has_min;     // an explicit minimum stands next to each scale
  bool wide_scale;  // scales and minimums are float32 (products of two levels), else float16
};

constexpr FormatSpec SpecOf(Format f) {
  switch (f) {
    case Format::kQ4_0:
      return {4, 32, 3, false, false};
    case Format::kQ4_1:
      return {4, 32, -1, true, false};
    case Format::kQ5_0:
      return {5, 32, 4, false, false};
    case Format::kQ5_1:
      return {5, 32, -1, true, false};
    case Format::kQ8_0:
      return {8, 32, 7, false, false};
    case Format::kQ2K:
      return {4, 16, -1, true, true};
    case Format::kQ3K:
      return {4, 16, 2, false, true};
    case Format::kQ4K:
      return {4, 32, -1, true, true};
    case Format::kQ5K:
      return {5, 32, -1, true, true};
    case Format::kQ6K:
      return {6, 16, 5, false, true};
    default:
      return {0, 0, -1, false, false};
  }
}

constexpr bool IsDense(Format f) { return SpecOf(f).bits == 0; }

// 32 activations as int8 with what the kernels need of them. One row is k / 32 of these, end to
// end.
struct QBlock {
  float scale;         // value = scale * q
  float scaled_sum;    // scale * sum(q)
  int32_t neg_sum;     // -sum(q)
  int32_t neg_sum_lo;  // -sum(q[0..16))
  int8_t q[32];
};
static_assert(sizeof(QBlock) == 48, "kernels address rows as k / 32 * 48 bytes");

// A weight matrix [n, k] (n output features) in tiles of nr output features; see pack.h for the
// layout. Does not own its bytes. Read-only while kernels run; any number of threads may read.
struct PackedWeight {
  Format format = Format::kF32;
  int32_t nr = 0;
  int64_t n = 0;
  int64_t k = 0;
  const uint8_t* data = nullptr;  // 64-byte aligned
  int64_t tile_bytes = 0;         // distance of two tiles

  int64_t tiles() const { return (n + nr - 1) / nr; }
};

constexpr int64_t kGroup = 32;           // activations that share a scale
constexpr int64_t kAttentionBlock = 64;  // positions of one attention block

}  // namespace sgl
