// Microbenchmarks: matmul in GMAC/s (and GB/s of weights), attention in GB/s of keys and values.
// usage: sgl_bench [isa] [threads] [filter]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "sgl/arena.h"
#include "sgl/kernels.h"
#include "sgl/pack.h"
#include "sgl/threads.h"

namespace sgl {
namespace {

// One thread is timed by its own processor time, so that a busy machine matters less.
bool g_own_time = false;

double Now() {
  timespec t;
  clock_gettime(g_own_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Best time of a few rounds: the machine may be shared.
template <class F>
double BestTime(F&& f) {
  f();
  double best = 1e9;
  const double start = Now();
  for (int i = 0; i < 1000 && (i < 5 || Now() - start < 0.25); ++i) {
    const double t = Now();
    f();
    best = std::min(best, Now() - t);
  }
  return best;
}

struct Shape {
  const char* model;
  int64_t n, k;
};

constexpr Shape kShapes[] = {{"smollm2", 576, 576},   {"smollm2", 192, 576},
                             {"smollm2", 1536, 576},  {"smollm2", 576, 1536},
                             {"smollm2", 49152, 576}, {"qwen2.5", 896, 896},
                             {"qwen2.5", 128, 896},   {"qwen2.5", 4864, 896},
                             {"qwen2.5", 896, 4864},  {"qwen2.5", 151936, 896}};

void BenchMatmul(const Kernels& kernels, ThreadPool& pool, GgufType type, const char* type_name,
                 const Shape& shape) {
  const PackedWeight layout = PackedLayout(PackedFormat(type), shape.n, shape.k, kernels.nr);
  // Copies of small matrices, so that batch 1 reads memory and not the cache.
  const int64_t copies = std::max<int64_t>(1, (int64_t{96} << 20) / PackedBytes(layout));
  const PageBlock bytes(copies * PackedBytes(layout));
  std::memset(bytes.data(), 0x11, static_cast<size_t>(copies * PackedBytes(layout)));
  for (int64_t m : {0, 1, 8, 32, 512}) {
    const bool cached = m == 0;  // batch 1 on one copy that fits the cache
    if (cached) m = 1;
    if (cached && PackedBytes(layout) > (1 << 20)) continue;
    if (m == 512 && shape.n > 40000) continue;
    std::vector<QBlock> x(static_cast<size_t>(m * shape.k / 32));
    std::vector<float> row(static_cast<size_t>(shape.k), 0.5f);
    const bool head = shape.n > 40000;
    std::vector<float> middles(head ? x.size() : 0);
    for (int64_t r = 0; r < m; ++r) {
      QBlock* blocks = x.data() + r * shape.k / 32;
      if (head) {
        kernels.quantize_centered(row.data(), shape.k, blocks, middles.data() + r * shape.k / 32);
      } else {
        kernels.quantize(row.data(), shape.k, blocks);
      }
    }
    std::vector<float> out(static_cast<size_t>(m * shape.n));
    int64_t copy = 0;
    const int64_t repeat = std::min<int64_t>(copies, m == 1 ? 64 : 4);
    const double seconds = BestTime([&] {
      pool.Run([&](Team& team) {
        for (int64_t i = 0; i < repeat; ++i) {
          PackedWeight w = layout;
          w.data = bytes.data() + (cached ? 0 : (copy + i) % copies * PackedBytes(layout));
          MatmulArgs a;
          a.w = &w;
          a.x = x.data();
          a.x_stride = shape.k / 32;
          a.middles = head ? middles.data() : nullptr;
          a.middle_stride = shape.k / 32;
          a.out = out.data();
          a.out_stride = shape.n;
          team.For(w.tiles(), 1,
                   [&](int64_t begin, int64_t end) { kernels.matmul(a, 0, m, begin, end); });
        }
      });
      copy += repeat;
    });
    const double macs = static_cast<double>(repeat * m * shape.n * shape.k);
    const double read = static_cast<double>(repeat * PackedBytes(layout));
    std::printf("%-8s %-5s %6lld x %-5lld M=%-4lld %8.1f GMAC/s %7.1f GB/s of weights%s\n",
                shape.model, type_name, static_cast<long long>(shape.n),
                static_cast<long long>(shape.k), static_cast<long long>(m), macs / seconds / 1e9,
                read / seconds / 1e9, cached ? " (cached)" : "");
  }
}

void BenchRead(ThreadPool& pool) {
  const int64_t bytes = int64_t{256} << 20;
  std::vector<int64_t> data(static_cast<size_t>(bytes / 8), 1);
  std::atomic<int64_t> sink{0};
  const double seconds = BestTime([&] {
    pool.Run([&](Team& team) {
      team.For(bytes / 8, 1 << 16, [&](int64_t begin, int64_t end) {
        int64_t sum = 0;
        for (int64_t i = begin; i < end; ++i) sum += data[static_cast<size_t>(i)];
        sink.fetch_add(sum, std::memory_order_relaxed);
      });
    });
  });
  std::printf("memory read %.1f GB/s, %d threads\n", static_cast<double>(bytes) / seconds / 1e9,
              pool.size());
}

void BenchLoop(ThreadPool& pool) {
  const double seconds = BestTime([&] {
    pool.Run([&](Team& team) {
      for (int i = 0; i < 1000; ++i) team.For(team.size(), 1, [](int64_t, int64_t) {});
    });
  });
  std::printf("empty loop %.2f us\n", seconds * 1e3);
}

// One pass of `queries` over every block of a long context.
void BenchAttention(const Kernels& kernels, ThreadPool& pool, int head_dim, int queries,
                    bool cached) {
  AttentionShape shape;
  shape.kv_heads = 1;
  shape.head_dim = head_dim;
  shape.scale = 0.1f;
  const int blocks = 4096;
  const int64_t values = int64_t{blocks} * 64 * head_dim;
  const PageBlock k(values * 2);
  const PageBlock v(values * 2);
  std::memset(k.data(), 0x2c, static_cast<size_t>(values * 2));
  std::memset(v.data(), 0x2c, static_cast<size_t>(values * 2));
  std::vector<int32_t> slots(static_cast<size_t>(blocks * 64));
  const size_t wrap = cached ? 256 : slots.size();
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int32_t>(i % wrap);
  std::vector<float> q(static_cast<size_t>(queries * head_dim), 0.1f);
  const double seconds = BestTime([&] {
    pool.Run([&](Team& team) {
      std::vector<float> scratch(static_cast<size_t>(AttentionScratchFloats(head_dim)));
      std::vector<float> partial(static_cast<size_t>(queries * (head_dim + 2)));
      std::vector<const float*> q_rows;
      std::vector<float*> partial_rows;
      std::vector<int32_t> positions(static_cast<size_t>(queries), blocks * 64);
      for (int i = 0; i < queries; ++i) {
        q_rows.push_back(q.data() + i * head_dim);
        partial_rows.push_back(partial.data() + i * (head_dim + 2));
      }
      team.For(blocks, 8, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          AttentionBlockArgs a;
          a.shape = &shape;
          a.k = k.data();
          a.v = v.data();
          a.slots = slots.data() + b * 64;
          a.first_position = static_cast<int32_t>(b * 64);
          a.positions = 64;
          if (b + 1 < end) {
            a.next_k = a.k;
            a.next_slots = a.slots + 64;
            a.next_positions = 64;
          }
          a.queries = queries;
          a.q = q_rows.data();
          a.query_positions = positions.data();
          a.partial = partial_rows.data();
          a.scratch = scratch.data();
          kernels.attention_block(a);
        }
      });
    });
  });
  std::printf("attention f16 %-6s head_dim %-3d queries %-2d %7.1f GB/s of KV %7.1f GMAC/s\n",
              cached ? "cached" : "memory", head_dim, queries,
              static_cast<double>(values) * 4 / seconds / 1e9,
              static_cast<double>(values) * 2 * queries / seconds / 1e9);
}

}  // namespace
}  // namespace sgl

int main(int argc, char** argv) {
  using namespace sgl;
  const Kernels* kernels = argc > 1 ? FindKernels(argv[1]) : &BestKernels();
  if (kernels == nullptr) {
    std::fprintf(stderr, "instruction set '%s' is not built or not supported here\n", argv[1]);
    return 1;
  }
  const char* filter = argc > 3 ? argv[3] : "";
  ThreadPool pool(argc > 2 ? std::atoi(argv[2]) : 2);
  g_own_time = pool.size() == 1;
  std::printf("kernels %s\n", kernels->name);
  BenchRead(pool);
  BenchLoop(pool);
  if (std::strcmp(filter, "attention") != 0) {
    for (const Shape& shape : kShapes) {
      if (std::strstr(shape.model, filter) == nullptr) continue;
      BenchMatmul(*kernels, pool, GgufType::kQ4_1, "q4_1", shape);
      BenchMatmul(*kernels, pool, GgufType::kQ5_0, "q5_0", shape);
      BenchMatmul(*kernels, pool, GgufType::kQ8_0, "q8_0", shape);
    }
  }
  for (int head_dim : {64, 128}) {
    for (int queries : {1, 3, 7, 16, 60}) {
      for (bool cached : {false, true}) BenchAttention(*kernels, pool, head_dim, queries, cached);
    }
  }
}
