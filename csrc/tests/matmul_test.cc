#include "gguf_blocks.h"

namespace sgl::test {
namespace {

struct Problem {
  GgufType type;
  bool centered;
  int64_t m, n, k;
  std::vector<float> weights;  // [n, k] dequantised
  std::vector<float> x;        // [m, k] as the kernel sees it: quantised activations as floats
  std::vector<QBlock> quantised;
  std::vector<float> middles;
  std::vector<float> bias;
  Aligned bytes;
  PackedWeight w;

  Problem(const Kernels& kernels, GgufType t, int64_t rows, int64_t features, int64_t depth,
          Random& rng, bool center = false)
      : type(t),
        centered(center),
        m(rows),
        n(features),
        k(depth),
        weights(static_cast<size_t>(features * depth)),
        x(rng.Floats(rows * depth)),
        bias(rng.Floats(features)),
        bytes(PackedBytes(PackedLayout(PackedFormat(t), features, depth, kernels.nr))),
        w(PackedLayout(PackedFormat(t), features, depth, kernels.nr)) {
    const std::vector<uint8_t> file = RandomRows(type, n, k, rng);
    for (int64_t r = 0; r < n; ++r) {
      DequantizeGgufRow(type, file.data() + r * GgufRowBytes(type, k), k, weights.data() + r * k);
    }
    PackGguf(type, file.data(), w, 0, w.tiles(), bytes.data());
    w.data = bytes.data();
    if (!dense()) Quantise(kernels);
  }

  bool dense() const { return IsDense(w.format); }

  void Quantise(const Kernels& kernels) {
    quantised.resize(static_cast<size_t>(m * k / 32));
    middles.assign(quantised.size(), 0.0f);
    for (int64_t r = 0; r < m; ++r) {
      QBlock* blocks = quantised.data() + r * k / 32;
      if (centered) {
        kernels.quantize_centered(x.data() + r * k, k, blocks, middles.data() + r * k / 32);
      } else {
        kernels.quantize(x.data() + r * k, k, blocks);
      }
    }
    for (int64_t i = 0; i < m * k; ++i) {
      const size_t g = static_cast<size_t>(i / 32);
      x[static_cast<size_t>(i)] = quantised[g].scale * quantised[g].q[i % 32] + middles[g];
    }
  }

  MatmulArgs Args(float* out) const {
    MatmulArgs a;
    a.w = &w;
    a.x = dense() ? static_cast<const void*>(x.data()) : quantised.data();
    a.x_stride = dense() ? k : k / 32;
    a.middles = centered ? middles.data() : nullptr;
    a.middle_stride = k / 32;
    a.out = out;
    a.out_stride = n + 3;  // unaligned on purpose
    return a;
  }

  // Expected value and the size of its terms, for the tolerance.
  double Expect(int64_t r, int64_t c, double* magnitude) const {
    double sum = 0;
    *magnitude = 0;
    for (int64_t i = 0; i < k; ++i) {
      const double term =
          double{x[static_cast<size_t>(r * k + i)]} * weights[static_cast<size_t>(c * k + i)];
      sum += term;
      *magnitude += std::fabs(term);
    }
    return sum;
  }
};

void AgreesWithScalar(const Kernels& kernels, GgufType type, bool centered, int64_t m, int64_t n,
                      int64_t k) {
  Random rng(static_cast<uint32_t>(m * 31 + n * 7 + k));
  const Problem p(kernels, type, m, n, k, rng, centered);
  const float kUntouched = -12345;
  std::vector<float> out(static_cast<size_t>(m * (n + 3)), kUntouched);
  kernels.matmul(p.Args(out.data()), 0, m, 0, p.w.tiles());
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      double magnitude;
      const double want = p.Expect(r, c, &magnitude);
      // Offsets (minimums, zero points) make partial sums larger than the terms.
      CHECK_NEAR(out[static_cast<size_t>(r * (n + 3) + c)], want, 2e-5 * magnitude + 1e-6);
    }
    for (int64_t c = n; c < n + 3; ++c) {
      CHECK(out[static_cast<size_t>(r * (n + 3) + c)] == kUntouched);
    }
  }
}

void EpiloguesAdd(const Kernels& kernels, GgufType type) {
  Random rng(5);
  const int64_t m = 3;
  const int64_t n = 21;
  const Problem p(kernels, type, m, n, 256, rng);
  const size_t size = static_cast<size_t>(m * (n + 3));
  std::vector<float> plain(size);
  kernels.matmul(p.Args(plain.data()), 0, m, 0, p.w.tiles());
  const std::vector<float> before = rng.Floats(static_cast<int64_t>(size));
  std::vector<float> out = before;
  MatmulArgs a = p.Args(out.data());
  a.bias = p.bias.data();
  a.accumulate = true;
  kernels.matmul(a, 0, m, 0, p.w.tiles());
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      const auto i = static_cast<size_t>(r * (n + 3) + c);
      CHECK(out[i] == before[i] + (plain[i] + p.bias[static_cast<size_t>(c)]));
    }
  }
}

// The same bits for a row whatever rows and tiles are computed along with it.
void BatchInvariant(const Kernels& kernels, GgufType type, bool centered, int64_t m, int64_t k) {
  Random rng(9);
  const int64_t n = 45;
  const Problem p(kernels, type, m, n, k, rng, centered);
  const size_t size = static_cast<size_t>(m * (n + 3));
  std::vector<float> whole(size);
  kernels.matmul(p.Args(whole.data()), 0, m, 0, p.w.tiles());
  for (int64_t step : {1, 2, 3, 5, 7, 8, 11, 17, 39}) {
    for (int64_t tiles : {1, 2, 3, 5}) {
      std::vector<float> parts(size);
      for (int64_t r = 0; r < m; r += step) {
        for (int64_t t = 0; t < p.w.tiles(); t += tiles) {
          kernels.matmul(p.Args(parts.data()), r, std::min(m, r + step), t,
                         std::min(p.w.tiles(), t + tiles));
        }
      }
      CHECK(SameBits(whole.data(), parts.data(), static_cast<int64_t>(size)));
    }
  }
}

// The largest integers of every format and activation at once: nothing may saturate.
void ExtremesDoNotSaturate(const Kernels& kernels, GgufType type) {
  Random rng(1);
  const int64_t k = 256;
  Problem p(kernels, type, 2, 9, k, rng);
  const Layout layout = BlockLayout(type);
  std::vector<uint8_t> file(static_cast<size_t>(9 * GgufRowBytes(type, k)),
                            type == GgufType::kQ8_0 ? 0x80 : 0xff);
  for (size_t block = 0; block < file.size(); block += static_cast<size_t>(layout.bytes)) {
    const uint16_t one = 0x3c00;
    for (int offset : layout.halves) std::memcpy(file.data() + block + offset, &one, 2);
  }
  PackGguf(type, file.data(), p.w, 0, p.w.tiles(), p.bytes.data());
  for (int64_t r = 0; r < 9; ++r) {
    DequantizeGgufRow(type, file.data() + r * GgufRowBytes(type, k), k, p.weights.data() + r * k);
  }
  for (int64_t i = 0; i < 2 * k; ++i) p.x[static_cast<size_t>(i)] = i < k ? 1.0f : -1.0f;
  p.Quantise(kernels);
  std::vector<float> out(2 * 12);
  kernels.matmul(p.Args(out.data()), 0, 2, 0, p.w.tiles());
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t c = 0; c < 9; ++c) {
      double magnitude;
      const double want = p.Expect(r, c, &magnitude);
      CHECK_NEAR(out[static_cast<size_t>(r * 12 + c)], want, 1e-5 * magnitude);
    }
  }
}

void EmptyRangesDoNothing(const Kernels& kernels) {
  Random rng(2);
  const Problem p(kernels, GgufType::kQ4_1, 2, 9, 64, rng);
  std::vector<float> out(24, 7.0f);
  kernels.matmul(p.Args(out.data()), 0, 0, 0, p.w.tiles());
  kernels.matmul(p.Args(out.data()), 0, 2, 1, 1);
  for (float f : out) CHECK(f == 7.0f);
}

void TestType(const Kernels& kernels, GgufType type) {
  const bool dense = IsDense(PackedFormat(type));
  const int64_t depth = dense ? 45 : GgufRowBytes(type, 32) < 0 ? 256 : 96;
  for (bool centered : {false, true}) {
    if (dense && centered) continue;
    for (int64_t m : {1, 2, 3, 4, 5, 9, 17}) {
      for (int64_t n : {1, 8, 15, 33, 70}) AgreesWithScalar(kernels, type, centered, m, n, depth);
    }
    BatchInvariant(kernels, type, centered, 23, 256);
    // More rows and a deeper sum than are worked on at once.
    BatchInvariant(kernels, type, centered, 79, 2304);
  }
  EpiloguesAdd(kernels, type);
  if (!dense) ExtremesDoNotSaturate(kernels, type);
}

}  // namespace
}  // namespace sgl::test

int main() {
  using namespace sgl::test;
  for (const sgl::Kernels* kernels : AllKernels()) {
    std::printf("%s\n", kernels->name);
    for (sgl::GgufType type : kQuantTypes) TestType(*kernels, type);
    for (sgl::GgufType type : kDenseTypes) TestType(*kernels, type);
    EmptyRangesDoNothing(*kernels);
  }
}
