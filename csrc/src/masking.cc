#include "sgl/masking.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace sgl {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr uint32_t kNeverBits = 0xff800000u;

struct Keep {
  uint32_t bits[4];
};

// Four bits of a mask as four words of ones or zeros.
constexpr std::array<Keep, 16> MakeKeeps() {
  std::array<Keep, 16> keeps{};
  for (uint32_t nibble = 0; nibble < 16; ++nibble) {
    for (uint32_t b = 0; b < 4; ++b) keeps[nibble].bits[b] = (nibble >> b) & 1 ? ~0u : 0u;
  }
  return keeps;
}

constexpr std::array<Keep, 16> kKeeps = MakeKeeps();

void MaskWord(float* x, uint32_t word) {
  for (int part = 0; part < 8; ++part) {
    uint32_t v[4];
    std::memcpy(v, x + 4 * part, sizeof v);
    const Keep& keep = kKeeps[(word >> (4 * part)) & 15];
    for (int i = 0; i < 4; ++i) v[i] = (v[i] & keep.bits[i]) | (kNeverBits & ~keep.bits[i]);
    std::memcpy(x + 4 * part, v, sizeof v);
  }
}

// Most words allow nothing or everything.
void MaskRow(float* x, int64_t vocab, const int32_t* mask, int64_t words) {
  const int64_t whole = std::min(words, vocab / 32);
  for (int64_t w = 0; w < whole; ++w) {
    const auto word = static_cast<uint32_t>(mask[w]);
    if (word == ~0u) continue;
    if (word == 0) {
      std::fill(x + 32 * w, x + 32 * w + 32, kNever);
    } else {
      MaskWord(x + 32 * w, word);
    }
  }
  for (int64_t i = 32 * whole; i < vocab; ++i) {
    const bool allowed = i < 32 * words && (static_cast<uint32_t>(mask[i / 32]) >> (i % 32)) & 1;
    if (!allowed) x[i] = kNever;
  }
}

}  // namespace

void MaskPiece(float* x, int64_t first, int64_t count, const int32_t* mask, int64_t words) {
  const int64_t skipped = std::min(words, first / 32);
  MaskRow(x, count, mask + skipped, words - skipped);
}

bool ForbidsPiece(int64_t first, int64_t count, const int32_t* mask, int64_t words) {
  const int64_t end = std::min(words, (first + count + 31) / 32);
  int32_t allowed = 0;
  for (int64_t w = first / 32; w < end; ++w) allowed |= mask[w];
  return allowed == 0;
}

void MaskLogits(ThreadPool& pool, float* logits, int64_t stride, int64_t vocab, const int64_t* rows,
                const int32_t* const* masks, int64_t words, int64_t count) {
  pool.Run([&](Team& team) {
    team.For(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        MaskRow(logits + rows[i] * stride, vocab, masks[i], words);
      }
    });
  });
}

}  // namespace sgl
