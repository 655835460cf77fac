// A few lines of test harness: checks that say what differed, random data, every instruction set.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "sgl/kernels.h"

#define CHECK(cond)                                                            \
  do {                                                                         \
    if (!(cond)) {                                                             \
      std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #cond); \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

#define CHECK_NEAR(a, b, tolerance)                                                       \
  do {                                                                                    \
    const double a_ = (a), b_ = (b), t_ = (tolerance);                                    \
    if (!(std::fabs(a_ - b_) <= t_)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s = %.9g but %s = %.9g (tolerance %.3g)\n", __FILE__, \
                   __LINE__, #a, a_, #b, b_, t_);                                         \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (0)

namespace sgl::test {

inline std::vector<const Kernels*> AllKernels() {
  std::vector<const Kernels*> all;
  for (const char* name : {"portable", "avx2", "avx512", "neon"}) {
    if (const Kernels* k = FindKernels(name)) all.push_back(k);
  }
  return all;
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float Normal() { return normal_(engine_); }
  int Int(int below) { return static_cast<int>(engine_() % static_cast<uint32_t>(below)); }
  std::vector<float> Floats(int64_t n, float scale = 1) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = Normal() * scale;
    return v;
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

// Storage aligned as packed weights must be.
class Aligned {
 public:
  explicit Aligned(int64_t bytes)
      : p_(static_cast<uint8_t*>(
            std::aligned_alloc(64, static_cast<size_t>((bytes + 127) / 64 * 64)))) {}
  ~Aligned() { std::free(p_); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  uint8_t* data() const { return p_; }

 private:
  uint8_t* p_;
};

inline bool SameBits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * 4) == 0;
}

}  // namespace sgl::test
