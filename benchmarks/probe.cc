// What the machine itself can do: memory read, float32 multiply-adds, 8-bit multiply-adds.
// usage: probe THREADS   prints one JSON object; rates in GB/s and GMAC/s, the best of several rounds.
// Compiled with -march=native by machine.py, so the arithmetic runs on the widest unit there is.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// Puts the calling thread on the `index`-th processor it may use: two on one would halve the rates.
void Pin(int index) {
#if defined(__linux__)
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return set;
  }();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
#endif
}

// Runs `work(thread)` on all threads at once, several times; the best wall time.
double BestTime(int threads, int rounds, const std::function<void(int)>& work) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    std::vector<std::thread> team;
    for (int t = 1; t < threads; ++t) {
      team.emplace_back([&work, t] {
        Pin(t);
        work(t);
      });
    }
    work(0);
    for (auto& thread : team) thread.join();
    best = std::min(best, Seconds(start));
  }
  return best;
}

volatile int64_t g_sink;

constexpr int64_t kBytes = int64_t{512} << 20;

typedef int64_t Line __attribute__((vector_size(64)));

double ReadGBs(int threads) {
  void* raw = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return 0;
  madvise(raw, kBytes, MADV_HUGEPAGE);
  Line* data = static_cast<Line*>(raw);
  const int64_t lines = kBytes / 64;
  for (int64_t i = 0; i < lines; ++i) data[i] = Line{} + i;
  const double best = BestTime(threads, 20, [&](int t) {
    Line sum[8] = {};
    const int64_t begin = lines * t / threads, end = lines * (t + 1) / threads;
    for (int64_t i = begin; i + 8 <= end; i += 8) {
      for (int j = 0; j < 8; ++j) sum[j] += data[i + j];
    }
    Line total = {};
    for (auto& part : sum) total += part;
    g_sink = total[0];
  });
  munmap(raw, kBytes);
  return kBytes / best / 1e9;
}

constexpr int kChains = 12;
constexpr int64_t kSteps = 1'500'000;  // a few milliseconds: short rounds fit between disturbances
constexpr int kRounds = 60;

// An opaque value: keeps the compiler from computing a loop's result ahead of time.
template <class T>
void Opaque(T& value) {
#if defined(__x86_64__)
  asm volatile("" : "+x"(value));
#elif defined(__aarch64__)
  asm volatile("" : "+w"(value));
#else
  asm volatile("" : "+m"(value));
#endif
}

#if defined(__AVX512F__)
constexpr int kFloats = 16;
using Floats = __m512;
Floats Fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__) && defined(__FMA__)
constexpr int kFloats = 8;
using Floats = __m256;
Floats Fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
#elif defined(__aarch64__)
constexpr int kFloats = 4;
using Floats = float32x4_t;
Floats Fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
#else
constexpr int kFloats = 4;
typedef float Floats __attribute__((vector_size(16)));
Floats Fma(Floats a, Floats b, Floats c) { return a * b + c; }
#endif

double FmaGMACs(int threads) {
  const double best = BestTime(threads, kRounds, [](int) {
    Floats a = {}, b = {}, sum[kChains] = {};
    for (auto& chain : sum) Opaque(chain);  // chains known to be equal would be merged
    for (int64_t step = 0; step < kSteps; ++step) {
      Opaque(a);
      for (auto& chain : sum) chain = Fma(a, b, chain);
    }
    for (auto& chain : sum) Opaque(chain);
  });
  return static_cast<double>(kSteps) * kChains * kFloats * threads / best / 1e9;
}

#if defined(__AVX512VNNI__)
constexpr int kInts = 64;
constexpr const char* kIntUnit = "avx512-vnni";
using Ints = __m512i;
Ints Dot(Ints sum, Ints a, Ints b) { return _mm512_dpbusd_epi32(sum, a, b); }
#elif defined(__AVXVNNI__)
constexpr int kInts = 32;
constexpr const char* kIntUnit = "avx-vnni";
using Ints = __m256i;
Ints Dot(Ints sum, Ints a, Ints b) { return _mm256_dpbusd_avx_epi32(sum, a, b); }
#elif defined(__AVX2__)
constexpr int kInts = 32;
constexpr const char* kIntUnit = "avx2";
using Ints = __m256i;
// The product is of the sum itself: one that all chains share would be computed once.
Ints Dot(Ints sum, Ints a, Ints) { return _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, sum)); }
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
constexpr int kInts = 16;
constexpr const char* kIntUnit = "neon-dotprod";
using Ints = int8x16_t;
Ints Dot(Ints sum, Ints a, Ints b) {
  return vreinterpretq_s8_s32(vdotq_s32(vreinterpretq_s32_s8(sum), a, b));
}
#else
constexpr int kInts = 8;
constexpr const char* kIntUnit = "portable";
typedef int16_t Ints __attribute__((vector_size(16)));
Ints Dot(Ints sum, Ints a, Ints) { return sum + a * sum; }
#endif

double IntGMACs(int threads) {
  const double best = BestTime(threads, kRounds, [](int) {
    Ints a = {}, b = {}, sum[kChains] = {};
    for (auto& chain : sum) Opaque(chain);
    for (int64_t step = 0; step < kSteps; ++step) {
      Opaque(a);
      for (auto& chain : sum) chain = Dot(chain, a, b);
    }
    for (auto& chain : sum) Opaque(chain);
  });
  return static_cast<double>(kSteps) * kChains * kInts * threads / best / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1) {
    std::fprintf(stderr, "usage: probe THREADS (a positive number)\n");
    return 2;
  }
  Pin(0);
  std::printf("{\"read_gb_s\": %.1f, \"fma_gmac_s\": %.1f, \"int8_gmac_s\": %.1f, \"int8_unit\": \"%s\"}\n",
              ReadGBs(threads), FmaGMACs(threads), IntGMACs(threads), kIntUnit);
}
