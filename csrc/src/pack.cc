#include "sgl/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "gguf_blocks.h"
#include "half.h"

namespace sgl {
namespace {

int64_t Align64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

float DenseValue(Format format, const uint8_t* p) {
  if (format == Format::kF32) {
    float f;
    std::memcpy(&f, p, 4);
    return f;
  }
  uint16_t h;
  std::memcpy(&h, p, 2);
  return format == Format::kF16 ? HalfToFloat(h) : Bf16ToFloat(h);
}

int64_t DenseBytes(Format format) { return format == Format::kF32 ? 4 : 2; }

void PackDenseTile(const uint8_t* rows, const PackedWeight& w, int64_t tile, uint8_t* dst) {
  const int64_t size = DenseBytes(w.format);
  const int64_t first = tile * w.nr;
  const int64_t count = std::min<int64_t>(w.nr, w.n - first);
  for (int64_t c = 0; c < count; ++c) {
    const uint8_t* src = rows + (first + c) * w.k * size;
    for (int64_t i = 0; i < w.k; ++i)
      std::memcpy(dst + (i * w.nr + c) * size, src + i * size, size);
  }
}

// Puts value q of feature c at position i (0..31) of its group's vectors.
void PutQuant(uint8_t* group, int bits, int nr, int c, int i, uint8_t q) {
  const int vec = nr * 4;
  const int quad = i / 4;
  uint8_t* lane = group + c * 4 + i % 4;
  if (bits == 8) {
    lane[quad * vec] = q ^ 0x80;
    return;
  }
  lane[(quad % 4) * vec] |= static_cast<uint8_t>((q & 0xf) << (quad < 4 ? 0 : 4));
  if (bits == 5) lane[4 * vec] |= static_cast<uint8_t>((q >> 4) << quad);
  if (bits == 6) lane[(4 + quad / 4) * vec] |= static_cast<uint8_t>((q >> 4) << (2 * (quad % 4)));
}

uint8_t GetQuant(const uint8_t* group, int bits, int nr, int c, int i) {
  const int vec = nr * 4;
  const int quad = i / 4;
  const uint8_t* lane = group + c * 4 + i % 4;
  if (bits == 8) return lane[quad * vec] ^ 0x80;
  int q = (lane[(quad % 4) * vec] >> (quad < 4 ? 0 : 4)) & 0xf;
  if (bits == 5) q |= ((lane[4 * vec] >> quad) & 1) << 4;
  if (bits == 6) q |= ((lane[(4 + quad / 4) * vec] >> (2 * (quad % 4))) & 3) << 4;
  return static_cast<uint8_t>(q);
}

// Where things lie in 32 of k: scales first, then quants.
struct GroupLayout {
  FormatSpec spec;
  int nr;

  int64_t scale_size() const { return spec.wide_scale ? 4 : 2; }
  int64_t group_scales() const { return int64_t{nr} * (spec.has_min ? 2 : 1); }
  int64_t quants() const { return 32 / spec.group * group_scales() * scale_size(); }
  int64_t bytes() const { return quants() + int64_t{nr} * 4 * spec.bits; }

  // Scale or minimum of feature c for the group that holds value i of k.
  int64_t scale(int64_t i, bool min, int c) const {
    const int64_t group = i % 32 / spec.group;
    return i / 32 * bytes() + (group * group_scales() + (min ? nr : 0) + c) * scale_size();
  }
  void Put(uint8_t* tile, int64_t i, bool min, int c, float value) const {
    uint8_t* p = tile + scale(i, min, c);
    const uint16_t half = FloatToHalf(value);
    if (spec.wide_scale) {
      std::memcpy(p, &value, 4);
    } else {
      std::memcpy(p, &half, 2);
    }
  }
  float Get(const uint8_t* tile, int64_t i, bool min, int c) const {
    return DenseValue(spec.wide_scale ? Format::kF32 : Format::kF16, tile + scale(i, min, c));
  }
};

void PackColumn(const PackedWeight& w, const GroupedRow& row, int c, uint8_t* tile) {
  const GroupLayout layout{SpecOf(w.format), w.nr};
  const FormatSpec& spec = layout.spec;
  for (int64_t i = 0; i < w.k; ++i) {
    PutQuant(tile + i / 32 * layout.bytes() + layout.quants(), spec.bits, w.nr, c,
             static_cast<int>(i % 32), row.q[static_cast<size_t>(i)]);
  }
  for (int64_t i = 0; i < w.k; i += spec.group) {
    const auto g = static_cast<size_t>(i / spec.group);
    layout.Put(tile, i, false, c, row.scale[g]);
    if (spec.has_min) layout.Put(tile, i, true, c, row.min[g]);
  }
}

// Quantises 32 values the way GGUF files do: the scale as float16, the rest by nearest.
void QuantizeGroup(const float* x, Format format, uint8_t* q, float* scale, float* min) {
  float lo = x[0];
  float hi = x[0];
  float extreme = x[0];
  for (int i = 1; i < 32; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  float zero = 0;
  int top = 15;
  if (format == Format::kQ8_0) {
    *scale = std::fabs(extreme) / 127;
    zero = 128;
    top = 255;
  } else if (format == Format::kQ4_0) {
    *scale = extreme / -8;
    zero = 8;
  } else {
    *scale = (hi - lo) / 15;
    *min = HalfToFloat(FloatToHalf(lo));
  }
  *scale = HalfToFloat(FloatToHalf(*scale));
  const float inverse = *scale != 0 ? 1 / *scale : 0;
  const float shift = format == Format::kQ4_1 ? *min : 0;
  for (int i = 0; i < 32; ++i) {
    const int v = static_cast<int>(std::nearbyint((x[i] - shift) * inverse + zero));
    q[i] = static_cast<uint8_t>(std::clamp(v, format == Format::kQ8_0 ? 1 : 0, top));
  }
}

}  // namespace

int64_t GgufRowBytes(GgufType type, int64_t k) {
  const int64_t values = BlockValues(type);
  return values == 0 || k % values != 0 ? -1 : k / values * BlockBytes(type);
}

Format PackedFormat(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return Format::kF32;
    case GgufType::kF16:
      return Format::kF16;
    case GgufType::kBf16:
      return Format::kBf16;
    case GgufType::kQ4_0:
      return Format::kQ4_0;
    case GgufType::kQ4_1:
      return Format::kQ4_1;
    case GgufType::kQ5_0:
      return Format::kQ5_0;
    case GgufType::kQ5_1:
      return Format::kQ5_1;
    case GgufType::kQ8_0:
      return Format::kQ8_0;
    case GgufType::kQ2_K:
      return Format::kQ2K;
    case GgufType::kQ3_K:
      return Format::kQ3K;
    case GgufType::kQ4_K:
      return Format::kQ4K;
    case GgufType::kQ5_K:
      return Format::kQ5K;
    case GgufType::kQ6_K:
      return Format::kQ6K;
  }
  return Format::kF32;
}

PackedWeight PackedLayout(Format format, int64_t n, int64_t k, int nr) {
  PackedWeight w;
  w.format = format;
  w.nr = nr;
  w.n = n;
  w.k = k;
  w.tile_bytes = Align64(IsDense(format) ? k * nr * DenseBytes(format)
                                         : k / 32 * GroupLayout{SpecOf(format), nr}.bytes());
  return w;
}

int64_t PackedBytes(const PackedWeight& w) { return w.tiles() * w.tile_bytes; }

void PackGguf(GgufType type, const void* rows, const PackedWeight& w, int64_t tile_begin,
              int64_t tile_end, uint8_t* out) {
  const auto* src = static_cast<const uint8_t*>(rows);
  const int64_t row_bytes = GgufRowBytes(type, w.k);
  GroupedRow row;
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    uint8_t* dst = out + tile * w.tile_bytes;
    std::memset(dst, 0, static_cast<size_t>(w.tile_bytes));
    if (IsDense(w.format)) {
      PackDenseTile(src, w, tile, dst);
      continue;
    }
    for (int c = 0; c < w.nr && tile * w.nr + c < w.n; ++c) {
      ReadGroupedRow(type, src + (tile * w.nr + c) * row_bytes, w.k, row);
      PackColumn(w, row, c, dst);
    }
  }
}

void PackQuantized(const float* rows, const PackedWeight& w, int64_t tile_begin, int64_t tile_end,
                   uint8_t* out) {
  GroupedRow row;
  row.q.resize(static_cast<size_t>(w.k));
  row.scale.resize(static_cast<size_t>(w.k / 32));
  row.min.resize(static_cast<size_t>(w.k / 32));
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    uint8_t* dst = out + tile * w.tile_bytes;
    std::memset(dst, 0, static_cast<size_t>(w.tile_bytes));
    for (int c = 0; c < w.nr && tile * w.nr + c < w.n; ++c) {
      const float* src = rows + (tile * w.nr + c) * w.k;
      for (int64_t g = 0; g < w.k / 32; ++g) {
        QuantizeGroup(src + g * 32, w.format, row.q.data() + g * 32, row.scale.data() + g,
                      row.min.data() + g);
      }
      PackColumn(w, row, c, dst);
    }
  }
}

void UnpackRow(const PackedWeight& w, int64_t n, float* out) {
  const uint8_t* tile = w.data + n / w.nr * w.tile_bytes;
  const int c = static_cast<int>(n % w.nr);
  if (IsDense(w.format)) {
    const int64_t size = DenseBytes(w.format);
    for (int64_t i = 0; i < w.k; ++i) out[i] = DenseValue(w.format, tile + (i * w.nr + c) * size);
    return;
  }
  const GroupLayout layout{SpecOf(w.format), w.nr};
  const FormatSpec& spec = layout.spec;
  const int zero = spec.zero_log2 < 0 ? 0 : 1 << spec.zero_log2;
  for (int64_t i = 0; i < w.k; ++i) {
    const uint8_t* quants = tile + i / 32 * layout.bytes() + layout.quants();
    const int q = GetQuant(quants, spec.bits, w.nr, c, static_cast<int>(i % 32));
    out[i] = layout.Get(tile, i, false, c) * static_cast<float>(q - zero) +
             (spec.has_min ? layout.Get(tile, i, true, c) : 0);
  }
}

void DequantizeGgufRow(GgufType type, const void* row, int64_t k, float* out) {
  const auto* src = static_cast<const uint8_t*>(row);
  const Format format = PackedFormat(type);
  if (IsDense(format)) {
    for (int64_t i = 0; i < k; ++i) out[i] = DenseValue(format, src + i * DenseBytes(format));
    return;
  }
  GroupedRow grouped;
  ReadGroupedRow(type, src, k, grouped);
  const FormatSpec spec = SpecOf(format);
  const int zero = spec.zero_log2 < 0 ? 0 : 1 << spec.zero_log2;
  for (int64_t i = 0; i < k; ++i) {
    const auto g = static_cast<size_t>(i / spec.group);
    out[i] = grouped.scale[g] * static_cast<float>(grouped.q[static_cast<size_t>(i)] - zero) +
             (spec.has_min ? grouped.min[g] : 0);
  }
}

}  // namespace sgl
