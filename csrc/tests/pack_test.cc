#include "sgl/pack.h"

#include "gguf_blocks.h"

namespace sgl::test {
namespace {

void HalfRoundTrips() {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const uint16_t bits = static_cast<uint16_t>(h);
    const float f = HalfToFloat(bits);
    if (std::isnan(f)) continue;
    CHECK(FloatToHalf(f) == bits);
    // Half way to the next value rounds to even; anything nearer rounds to nearest.
    const float next = HalfToFloat(static_cast<uint16_t>(bits + 1));
    if ((bits & 0x7fff) >= 0x7bff || std::isnan(next)) continue;
    CHECK(FloatToHalf((f + next) / 2) == static_cast<uint16_t>(bits + (bits & 1)));
  }
  CHECK(FloatToHalf(65520.0f) == 0x7c00);
  CHECK(FloatToBf16(1.0f) == 0x3f80);
  CHECK(Bf16ToFloat(FloatToBf16(3.140625f)) == 3.140625f);
}

// A block of each simple type written by hand, with the value the format's definition gives.
void KnownBlocks() {
  float out[32];
  uint8_t q4[18] = {0x00, 0x3c};  // scale 1
  q4[2] = 0xf0;                   // value 0 -> 0 - 8, value 16 -> 15 - 8
  DequantizeGgufRow(GgufType::kQ4_0, q4, 32, out);
  CHECK(out[0] == -8 && out[16] == 7 && out[1] == -8);
  uint8_t q5[22] = {0x00, 0x40, 0x01, 0x00, 0x01, 0x00};  // scale 2, fifth bit of values 0 and 16
  q5[6] = 0x21;
  DequantizeGgufRow(GgufType::kQ5_0, q5, 32, out);
  CHECK(out[0] == 2 * (17 - 16) && out[16] == 2 * (18 - 16) && out[1] == -32);
  uint8_t q8[34] = {0x00, 0x3c, 0xff, 0x7f, 0x80};
  DequantizeGgufRow(GgufType::kQ8_0, q8, 32, out);
  CHECK(out[0] == -1 && out[1] == 127 && out[2] == -128);
}

void PackedEqualsFile(GgufType type, int nr) {
  Random rng(static_cast<uint32_t>(type) * 100 + static_cast<uint32_t>(nr));
  const int64_t k = IsDense(PackedFormat(type)) ? 37 : 512;
  for (int64_t n : {1, 7, 16, 19}) {
    const std::vector<uint8_t> rows = RandomRows(type, n, k, rng);
    PackedWeight w = PackedLayout(PackedFormat(type), n, k, nr);
    const Aligned bytes(PackedBytes(w));
    PackGguf(type, rows.data(), w, 0, w.tiles(), bytes.data());
    w.data = bytes.data();
    std::vector<float> want(static_cast<size_t>(k));
    std::vector<float> got(static_cast<size_t>(k));
    for (int64_t r = 0; r < n; ++r) {
      DequantizeGgufRow(type, rows.data() + r * GgufRowBytes(type, k), k, want.data());
      UnpackRow(w, r, got.data());
      CHECK(SameBits(want.data(), got.data(), k));
    }
  }
}

void QuantizingStaysClose(Format format, float tolerance) {
  Random rng(7);
  const int64_t n = 5;
  const int64_t k = 96;
  const std::vector<float> rows = rng.Floats(n * k);
  PackedWeight w = PackedLayout(format, n, k, 8);
  const Aligned bytes(PackedBytes(w));
  PackQuantized(rows.data(), w, 0, w.tiles(), bytes.data());
  w.data = bytes.data();
  std::vector<float> got(static_cast<size_t>(k));
  for (int64_t r = 0; r < n; ++r) {
    UnpackRow(w, r, got.data());
    for (int64_t i = 0; i < k; ++i) {
      CHECK_NEAR(got[static_cast<size_t>(i)], rows[static_cast<size_t>(r * k + i)], tolerance);
    }
  }
}

}  // namespace
}  // namespace sgl::test

int main() {
  using namespace sgl::test;
  HalfRoundTrips();
  KnownBlocks();
  for (int nr : {8, 16}) {
    for (sgl::GgufType type : kQuantTypes) PackedEqualsFile(type, nr);
    for (sgl::GgufType type : kDenseTypes) PackedEqualsFile(type, nr);
  }
  CHECK(sgl::GgufRowBytes(sgl::GgufType::kQ4_K, 640) == -1);
  CHECK(sgl::GgufRowBytes(sgl::GgufType::kQ5_0, 640) == 440);
  QuantizingStaysClose(sgl::Format::kQ8_0, 0.02f);
  QuantizingStaysClose(sgl::Format::kQ4_0, 0.4f);
  QuantizingStaysClose(sgl::Format::kQ4_1, 0.25f);
}
