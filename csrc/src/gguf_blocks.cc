#include "gguf_blocks.h"

#include <cstring>

#include "half.h"
#include "sgl/pack.h"

namespace sgl {
namespace {

float ReadHalf(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, 2);
  return HalfToFloat(h);
}

// Where one block writes: 32 or 256 integers and their groups.
struct Sink {
  uint8_t* q;
  float* scale;
  float* min;
};

void Nibbles16(const uint8_t* qs, uint8_t* q) {
  for (int j = 0; j < 16; ++j) {
    q[j] = qs[j] & 0xf;
    q[j + 16] = qs[j] >> 4;
  }
}

void FifthBits(const uint8_t* qh, uint8_t* q) {
  uint32_t bits;
  std::memcpy(&bits, qh, 4);
  for (int j = 0; j < 32; ++j) q[j] |= static_cast<uint8_t>(((bits >> j) & 1) << 4);
}

void ReadQ4_0(const uint8_t* b, Sink s) {
  s.scale[0] = ReadHalf(b);
  Nibbles16(b + 2, s.q);
}

void ReadQ4_1(const uint8_t* b, Sink s) {
  s.scale[0] = ReadHalf(b);
  s.min[0] = ReadHalf(b + 2);
  Nibbles16(b + 4, s.q);
}

void ReadQ5_0(const uint8_t* b, Sink s) {
  s.scale[0] = ReadHalf(b);
  Nibbles16(b + 6, s.q);
  FifthBits(b + 2, s.q);
}

void ReadQ5_1(const uint8_t* b, Sink s) {
  s.scale[0] = ReadHalf(b);
  s.min[0] = ReadHalf(b + 2);
  Nibbles16(b + 8, s.q);
  FifthBits(b + 4, s.q);
}

void ReadQ8_0(const uint8_t* b, Sink s) {
  s.scale[0] = ReadHalf(b);
  for (int j = 0; j < 32; ++j) s.q[j] = b[2 + j] ^ 0x80;
}

void ReadQ2K(const uint8_t* b, Sink s) {
  const uint8_t* qs = b + 16;
  const float d = ReadHalf(b + 80);
  const float dmin = ReadHalf(b + 82);
  for (int g = 0; g < 16; ++g) {
    s.scale[g] = d * static_cast<float>(b[g] & 0xf);
    s.min[g] = -(dmin * static_cast<float>(b[g] >> 4));
    // 128 values share 32 bytes; groups walk over (shift, half).
    const uint8_t* src = qs + (g / 8) * 32 + (g % 2) * 16;
    const int shift = 2 * ((g % 8) / 2);
    for (int l = 0; l < 16; ++l) s.q[g * 16 + l] = (src[l] >> shift) & 3;
  }
}

void ReadQ3K(const uint8_t* b, Sink s) {
  const uint8_t* hmask = b;
  const uint8_t* qs = b + 32;
  const uint8_t* sc = b + 96;
  const float d = ReadHalf(b + 108);
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? sc[g] & 0xf : sc[g - 8] >> 4;
    const int high = (sc[8 + g % 4] >> (2 * (g / 4))) & 3;
    s.scale[g] = d * static_cast<float>((low | (high << 4)) - 32);
    const uint8_t* src = qs + (g / 8) * 32 + (g % 2) * 16;
    const uint8_t* high_bits = hmask + (g % 2) * 16;
    const int shift = 2 * ((g % 8) / 2);
    for (int l = 0; l < 16; ++l) {
      const int bit = (high_bits[l] >> (g / 2)) & 1;
      s.q[g * 16 + l] = static_cast<uint8_t>(((src[l] >> shift) & 3) | (bit << 2));
    }
  }
}

// Six-bit scales and minimums of Q4_K and Q5_K, eight of each in twelve bytes.
void SixBitScales(const uint8_t* b, Sink s) {
  const float d = ReadHalf(b);
  const float dmin = ReadHalf(b + 2);
  const uint8_t* p = b + 4;
  for (int j = 0; j < 8; ++j) {
    const int sc = j < 4 ? p[j] & 63 : (p[j + 4] & 0xf) | ((p[j - 4] >> 6) << 4);
    const int mn = j < 4 ? p[j + 4] & 63 : (p[j + 4] >> 4) | ((p[j] >> 6) << 4);
    s.scale[j] = d * static_cast<float>(sc);
    s.min[j] = -(dmin * static_cast<float>(mn));
  }
}

void Nibbles64(const uint8_t* qs, uint8_t* q) {
  for (int part = 0; part < 4; ++part) {
    for (int l = 0; l < 32; ++l) {
      q[part * 64 + l] = qs[part * 32 + l] & 0xf;
      q[part * 64 + 32 + l] = qs[part * 32 + l] >> 4;
    }
  }
}

void ReadQ4K(const uint8_t* b, Sink s) {
  SixBitScales(b, s);
  Nibbles64(b + 16, s.q);
}

void ReadQ5K(const uint8_t* b, Sink s) {
  SixBitScales(b, s);
  const uint8_t* qh = b + 16;
  Nibbles64(b + 48, s.q);
  for (int i = 0; i < 256; ++i) {
    s.q[i] |= static_cast<uint8_t>(((qh[i % 32] >> (i / 32)) & 1) << 4);
  }
}

void ReadQ6K(const uint8_t* b, Sink s) {
  const uint8_t* sc = b + 192;
  const float d = ReadHalf(b + 208);
  for (int g = 0; g < 16; ++g) s.scale[g] = d * static_cast<float>(static_cast<int8_t>(sc[g]));
  for (int half = 0; half < 2; ++half) {
    const uint8_t* ql = b + half * 64;
    const uint8_t* qh = b + 128 + half * 32;
    uint8_t* q = s.q + half * 128;
    for (int i = 0; i < 128; ++i) {
      const int low = (ql[i % 64] >> (i < 64 ? 0 : 4)) & 0xf;
      const int high = (qh[i % 32] >> (2 * (i / 32))) & 3;
      q[i] = static_cast<uint8_t>(low | (high << 4));
    }
  }
}

struct BlockType {
  int64_t values;
  int64_t bytes;
  void (*read)(const uint8_t*, Sink);
};

BlockType Describe(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return {1, 4, nullptr};
    case GgufType::kF16:
    case GgufType::kBf16:
      return {1, 2, nullptr};
    case GgufType::kQ4_0:
      return {32, 18, ReadQ4_0};
    case GgufType::kQ4_1:
      return {32, 20, ReadQ4_1};
    case GgufType::kQ5_0:
      return {32, 22, ReadQ5_0};
    case GgufType::kQ5_1:
      return {32, 24, ReadQ5_1};
    case GgufType::kQ8_0:
      return {32, 34, ReadQ8_0};
    case GgufType::kQ2_K:
      return {256, 84, ReadQ2K};
    case GgufType::kQ3_K:
      return {256, 110, ReadQ3K};
    case GgufType::kQ4_K:
      return {256, 144, ReadQ4K};
    case GgufType::kQ5_K:
      return {256, 176, ReadQ5K};
    case GgufType::kQ6_K:
      return {256, 210, ReadQ6K};
  }
  return {0, 0, nullptr};
}

}  // namespace

int64_t BlockValues(GgufType type) { return Describe(type).values; }

int64_t BlockBytes(GgufType type) { return Describe(type).bytes; }

void ReadGroupedRow(GgufType type, const uint8_t* row, int64_t k, GroupedRow& out) {
  const BlockType block = Describe(type);
  // The smallest group is 16: room for the finest format.
  out.q.resize(static_cast<size_t>(k));
  out.scale.resize(static_cast<size_t>(k / 16));
  out.min.resize(static_cast<size_t>(k / 16));
  const int64_t groups = block.values / SpecOf(PackedFormat(type)).group;
  for (int64_t i = 0; i < k / block.values; ++i) {
    block.read(row + i * block.bytes,
               Sink{out.q.data() + i * block.values, out.scale.data() + i * groups,
                    out.min.data() + i * groups});
  }
}

}  // namespace sgl
