#include <algorithm>

#include "check.h"
#include "half.h"

namespace sgl::test {
namespace {

void QuantizesWithinHalfAStep(const Kernels& kernels) {
  Random rng(3);
  for (int64_t k : {32, 96, 576}) {
    std::vector<float> x = rng.Floats(k);
    for (int64_t i = 0; i < 32; ++i)
      x[static_cast<size_t>(i)] = k == 96 ? 0 : x[static_cast<size_t>(i)];
    std::vector<QBlock> q(static_cast<size_t>(k / 32));
    kernels.quantize(x.data(), k, q.data());
    for (size_t g = 0; g < q.size(); ++g) {
      float absmax = 0;
      int sum = 0;
      int low = 0;
      for (size_t i = 0; i < 32; ++i) {
        absmax = std::max(absmax, std::fabs(x[g * 32 + i]));
        CHECK_NEAR(q[g].scale * q[g].q[i], x[g * 32 + i], q[g].scale * 0.5001);
        sum += q[g].q[i];
        low += i < 16 ? q[g].q[i] : 0;
      }
      CHECK(q[g].scale == absmax / 127);
      CHECK(q[g].neg_sum == -sum && q[g].neg_sum_lo == -low);
      CHECK(q[g].scaled_sum == q[g].scale * static_cast<float>(sum));
    }
  }
}

// One large value of 32: symmetric steps would be twice as wide.
void QuantizesAroundTheMiddle(const Kernels& kernels) {
  Random rng(3);
  for (int64_t k : {32, 96, 576}) {
    std::vector<float> x = rng.Floats(k);
    for (size_t i = 5; i < x.size(); i += 32) x[i] = 40.0f;
    std::fill(x.end() - 32, x.end(), -3.0f);  // equal values are exact
    std::vector<QBlock> q(static_cast<size_t>(k / 32));
    std::vector<float> middles(q.size());
    kernels.quantize_centered(x.data(), k, q.data(), middles.data());
    for (size_t g = 0; g < q.size(); ++g) {
      const float* block = x.data() + g * 32;
      const auto [low, high] = std::minmax_element(block, block + 32);
      CHECK_NEAR(middles[g], (*low + *high) / 2, 1e-5);
      CHECK_NEAR(q[g].scale, (*high - *low) / 254, 1e-6);
      double sum = 0;
      for (size_t i = 0; i < 32; ++i) {
        CHECK_NEAR(q[g].scale * q[g].q[i] + middles[g], block[i], q[g].scale * 0.501 + 1e-6);
        sum += double{q[g].scale} * q[g].q[i] + double{middles[g]};
      }
      CHECK_NEAR(q[g].scaled_sum, sum, 1e-3);
    }
  }
}

void NormsAndAdds(const Kernels& kernels) {
  Random rng(4);
  for (int64_t k : {1, 7, 16, 33, 576}) {
    const std::vector<float> x = rng.Floats(k, 3);
    const std::vector<float> weight = rng.Floats(k);
    std::vector<float> out(static_cast<size_t>(k));
    kernels.rms_norm(x.data(), weight.data(), 1e-5f, k, out.data());
    double squares = 0;
    for (float v : x) squares += double{v} * v;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(k) + 1e-5);
    for (size_t i = 0; i < out.size(); ++i) {
      CHECK_NEAR(out[i], x[i] * factor * weight[i], 1e-5 * std::fabs(out[i]) + 1e-7);
    }
    std::vector<float> sum = weight;
    kernels.add_scaled(x.data(), 0.5f, k, sum.data());
    for (size_t i = 0; i < sum.size(); ++i) CHECK_NEAR(sum[i], weight[i] + 0.5 * x[i], 1e-6);
  }
}

void Gates(const Kernels& kernels) {
  Random rng(5);
  for (int64_t k : {1, 9, 64, 101}) {
    std::vector<float> gate = rng.Floats(k, 6);
    gate[0] = -200;  // far into the flat part
    const std::vector<float> up = rng.Floats(k);
    std::vector<float> silu(static_cast<size_t>(k));
    std::vector<float> gelu(static_cast<size_t>(k));
    kernels.glu(gate.data(), up.data(), Gate::kSilu, k, silu.data());
    kernels.glu(gate.data(), up.data(), Gate::kGeluTanh, k, gelu.data());
    for (size_t i = 0; i < silu.size(); ++i) {
      const double g = gate[i];
      CHECK_NEAR(silu[i], g / (1 + std::exp(-g)) * up[i], 2e-6 * (1 + std::fabs(g)));
      const double inner = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
      CHECK_NEAR(gelu[i], 0.5 * g * (1 + std::tanh(inner)) * up[i], 2e-6 * (1 + std::fabs(g)));
    }
    // The same value in any lane: shifted by one gives the same bits.
    std::vector<float> shifted(static_cast<size_t>(k));
    kernels.glu(gate.data() + 1, up.data() + 1, Gate::kSilu, k - 1, shifted.data());
    CHECK(SameBits(silu.data() + 1, shifted.data(), k - 1));
  }
}

void Rotates(const Kernels& kernels) {
  Random rng(6);
  for (int head_dim : {8, 24, 64, 80}) {
    for (bool interleaved : {false, true}) {
      const int rotary = head_dim == 80 ? 32 : head_dim;
      const int half = rotary / 2;
      std::vector<float> cos(static_cast<size_t>(5 * half));
      std::vector<float> sin(cos.size());
      for (size_t i = 0; i < cos.size(); ++i) {
        cos[i] = std::cos(static_cast<float>(i));
        sin[i] = std::sin(static_cast<float>(i));
      }
      const std::vector<float> before = rng.Floats(3 * head_dim);
      std::vector<float> x = before;
      RopeArgs args;
      args.cos = cos.data();
      args.sin = sin.data();
      args.rotary_dim = rotary;
      args.interleaved = interleaved;
      kernels.rope(x.data(), 3, head_dim, 4, args);
      for (int h = 0; h < 3; ++h) {
        for (int i = 0; i < half; ++i) {
          const auto a = static_cast<size_t>(h * head_dim + (interleaved ? 2 * i : i));
          const auto b = static_cast<size_t>(h * head_dim + (interleaved ? 2 * i + 1 : i + half));
          const auto t = static_cast<size_t>(4 * half + i);
          CHECK_NEAR(x[a], before[a] * cos[t] - before[b] * sin[t], 1e-6);
          CHECK_NEAR(x[b], before[b] * cos[t] + before[a] * sin[t], 1e-6);
        }
        for (int i = rotary; i < head_dim; ++i) {
          const auto at = static_cast<size_t>(h * head_dim + i);
          CHECK(x[at] == before[at]);
        }
      }
    }
  }
}

void StoresAsHalves(const Kernels& kernels) {
  Random rng(7);
  const std::vector<float> x = rng.Floats(37);
  uint16_t half[37];
  kernels.store_as(x.data(), 37, DType::kF16, half);
  for (size_t i = 0; i < 37; ++i) CHECK(half[i] == FloatToHalf(x[i]));
  kernels.store_as(x.data(), 37, DType::kBf16, half);
  for (size_t i = 0; i < 37; ++i) CHECK(half[i] == FloatToBf16(x[i]));
}

// A value that is no number must not vanish in integers.
void QuantizingKeepsNaN(const Kernels& kernels) {
  Random rng(9);
  for (int64_t at : {0, 5, 17, 31}) {
    std::vector<float> x = rng.Floats(32);
    x[static_cast<size_t>(at)] = NAN;
    QBlock block;
    kernels.quantize(x.data(), 32, &block);
    CHECK(std::isnan(block.scale));
    float middle;
    kernels.quantize_centered(x.data(), 32, &block, &middle);
    CHECK(std::isnan(block.scale) && std::isnan(middle));
    int8_t q[32];
    float scale;
    kernels.store_i8(x.data(), 32, q, &scale);
    CHECK(std::isnan(scale));
  }
}

void StoresAsIntegers(const Kernels& kernels) {
  Random rng(10);
  for (int64_t n : {1, 15, 64, 77}) {
    std::vector<float> x = rng.Floats(n);
    std::vector<int8_t> q(static_cast<size_t>(n) + 1, 99);
    float scale;
    kernels.store_i8(x.data(), n, q.data(), &scale);
    for (size_t i = 0; i < x.size(); ++i) CHECK_NEAR(scale * q[i], x[i], scale * 0.5001);
    CHECK(q.back() == 99);
    const std::vector<float> zeros(x.size(), 0.0f);
    kernels.store_i8(zeros.data(), n, q.data(), &scale);
    CHECK(scale == 0 && q[0] == 0);
  }
}

void FindsTheLargest(const Kernels& kernels) {
  Random rng(8);
  for (int64_t n : {1, 5, 16, 100}) {
    std::vector<float> x = rng.Floats(n);
    const auto where = static_cast<size_t>(rng.Int(static_cast<int>(n)));
    x[where] = 50;
    if (where + 1 < x.size()) x.back() = 50;  // a tie: the lower index wins
    if (where > 0) x[0] = NAN;
    float top;
    CHECK(kernels.argmax(x.data(), n, &top) == static_cast<int64_t>(where));
    CHECK(top == 50);
    CHECK(kernels.any_greater(x.data(), n, 49.0f) && !kernels.any_greater(x.data(), n, 50.0f));
  }
  std::vector<float> x = {-100, 0, 3, 30};
  kernels.softcap(x.data(), 4, 30);
  CHECK_NEAR(x[0], 30 * std::tanh(-100 / 30.0), 1e-4);
  CHECK_NEAR(x[1], 0, 1e-6);
  CHECK_NEAR(x[2], 30 * std::tanh(0.1), 1e-5);
}

}  // namespace
}  // namespace sgl::test

int main() {
  using namespace sgl::test;
  for (const sgl::Kernels* kernels : AllKernels()) {
    std::printf("%s\n", kernels->name);
    QuantizesWithinHalfAStep(*kernels);
    QuantizesAroundTheMiddle(*kernels);
    NormsAndAdds(*kernels);
    Gates(*kernels);
    Rotates(*kernels);
    StoresAsHalves(*kernels);
    QuantizingKeepsNaN(*kernels);
    StoresAsIntegers(*kernels);
    FindsTheLargest(*kernels);
  }
}
