// Single operations, for tests and benchmarks.
#include <vector>

#include "common.h"

namespace sgl {
namespace {

// x w^T in one call; quantised weights see int8 activations, as in a program.
Array<float> Linear(ThreadPool& pool, const Weight& weight, Floats2 x) {
  const PackedWeight& w = weight.w;
  const auto rows = static_cast<int64_t>(x.shape(0));
  if (static_cast<int64_t>(x.shape(1)) != w.k) {
    throw std::invalid_argument("x has depth " + std::to_string(x.shape(1)) + ", the weight " +
                                std::to_string(w.k));
  }
  auto out = NewArray<float>({x.shape(0), static_cast<size_t>(w.n)});
  nb::gil_scoped_release release;
  std::vector<QBlock> blocks;
  MatmulArgs a;
  a.w = &w;
  a.x = x.data();
  a.x_stride = w.k;
  a.out = out.data();
  a.out_stride = w.n;
  if (!IsDense(w.format)) {
    blocks.resize(static_cast<size_t>(rows * w.k / 32));
    for (int64_t r = 0; r < rows; ++r) {
      weight.kernels->quantize(x.data() + r * w.k, w.k, blocks.data() + r * w.k / 32);
    }
    a.x = blocks.data();
    a.x_stride = w.k / 32;
  }
  pool.Run([&](Team& team) {
    team.For(w.tiles(), 4,
             [&](int64_t begin, int64_t end) { weight.kernels->matmul(a, 0, rows, begin, end); });
  });
  return out;
}

}  // namespace

void BindOps(nb::module_& m) {
  m.def("linear", &Linear, nb::arg("pool"), nb::arg("weight"), nb::arg("x"),
        "x w^T; quantised weights see int8 activations, as in a program.");
}

}  // namespace sgl
