// Single operations, for tests and benchmarks.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "common.h"

namespace sgl {
namespace {

// x w^T in one call; quantised weights see int8 activations, as in a program: those of the head if
// `centered`, else those of all other matrices.
Array<float> Linear(ThreadPool& pool, const Weight& weight, Floats2 x, bool centered) {
  const PackedWeight& w = weight.w;
  const auto rows = static_cast<int64_t>(x.shape(0));
  if (static_cast<int64_t>(x.shape(1)) != w.k) {
    throw std::invalid_argument("x has depth " + std::to_string(x.shape(1)) + ", the weight " +
                                std::to_string(w.k));
  }
  auto out = NewArray<float>({x.shape(0), static_cast<size_t>(w.n)});
  nb::gil_scoped_release release;
  std::vector<QBlock> blocks;
  std::vector<float> middles;
  MatmulArgs a;
  a.w = &w;
  a.x = x.data();
  a.x_stride = w.k;
  a.out = out.data();
  a.out_stride = w.n;
  if (!IsDense(w.format)) {
    const int64_t groups = w.k / 32;
    blocks.resize(static_cast<size_t>(rows * groups));
    if (centered) middles.resize(blocks.size());
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * w.k;
      if (centered) {
        weight.kernels->quantize_centered(row, w.k, blocks.data() + r * groups,
                                          middles.data() + r * groups);
      } else {
        weight.kernels->quantize(row, w.k, blocks.data() + r * groups);
      }
    }
    a.middles = centered ? middles.data() : nullptr;
    a.middle_stride = groups;
    a.x = blocks.data();
    a.x_stride = w.k / 32;
  }
  pool.Run([&](Team& team) {
    team.For(w.tiles(), 4,
             [&](int64_t begin, int64_t end) { weight.kernels->matmul(a, 0, rows, begin, end); });
  });
  return out;
}

// One thread is timed by its own processor time, so that a busy machine matters less.
double Now(bool own_time) {
  timespec t;
  clock_gettime(own_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Best of several rounds of `work` on all threads, in seconds: the machine may be shared.
template <class F>
double BestSeconds(ThreadPool& pool, F&& work) {
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const double start = Now(pool.size() == 1);
    pool.Run(work);
    best = std::min(best, Now(pool.size() == 1) - start);
  }
  return best;
}

nb::dict Probe(ThreadPool& pool, std::optional<std::string> isa) {
  const Kernels& kernels = KernelsNamed(isa);
  const int64_t bytes = int64_t{512} << 20;  // 128 MiB are read before memory reaches its speed
  const int64_t rounds = 20000;
  const int64_t pieces = 16;
  double seconds[3];
  {
    nb::gil_scoped_release release;
    const PageBlock block(bytes);
    std::memset(block.data(), 1, static_cast<size_t>(bytes));
    const auto* words = reinterpret_cast<const int64_t*>(block.data());
    std::atomic<int64_t> sink{0};
    seconds[0] = BestSeconds(pool, [&](Team& team) {
      team.For(bytes / 8, 1 << 15, [&](int64_t begin, int64_t end) {
        int64_t sum = 0;
        for (int64_t i = begin; i < end; ++i) sum += words[i];
        sink.fetch_add(sum, std::memory_order_relaxed);
      });
    });
    for (int i = 0; i < 2; ++i) {
      const auto probe = i == 0 ? kernels.probe_int8 : kernels.probe_f32;
      seconds[1 + i] = BestSeconds(pool, [&](Team& team) {
        team.For(pieces, 1, [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; ++p) {
            sink.fetch_add(static_cast<int64_t>(probe(rounds)), std::memory_order_relaxed);
          }
        });
      });
    }
  }
  const double lanes = static_cast<double>(pieces * rounds * kernels.nr);
  nb::dict out;
  out["read_bytes_per_s"] = static_cast<double>(bytes) / seconds[0];
  out["int8_macs_per_s"] = lanes * static_cast<double>(kProbeInt8) / seconds[1];
  out["f32_macs_per_s"] = lanes * static_cast<double>(kProbeF32) / seconds[2];
  return out;
}

}  // namespace

void BindOps(nb::module_& m) {
  m.def("probe", &Probe, nb::arg("pool"), nb::arg("isa") = nb::none(),
        "What this machine can do on the pool's threads: read_bytes_per_s from memory, and "
        "int8_macs_per_s and f32_macs_per_s of the arithmetic units.");
  m.def("linear", &Linear, nb::arg("pool"), nb::arg("weight"), nb::arg("x"),
        nb::arg("centered") = false,
        "x w^T; quantised weights see int8 activations, as in a program: `centered` as its head "
        "does, else as all other operations do.");
}

}  // namespace sgl
