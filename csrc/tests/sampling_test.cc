// Draws against a plain double-precision definition, and the bits of rows in any company.
#include "sgl/sampling.h"

#include <algorithm>
#include <numeric>

#include "check.h"

namespace sgl::test {
namespace {

struct Params {
  float temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
};

struct Result {
  std::vector<int64_t> tokens, top_ids;
  std::vector<double> logprobs, top_values, max, log_total;
  std::vector<char> broken;
};

Result Run(const Kernels& kernels, int threads, const std::vector<float>& logits, int64_t vocab,
           const std::vector<Params>& params, const std::vector<double>& uniform, int64_t top) {
  const size_t rows = params.size();
  ThreadPool pool(threads);
  Sampler sampler(kernels, vocab);
  std::vector<float> temperature;
  std::vector<int64_t> top_k, counts(rows, top);
  std::vector<double> top_p, min_p;
  for (const Params& p : params) {
    temperature.push_back(p.temperature);
    top_k.push_back(p.top_k);
    top_p.push_back(p.top_p);
    min_p.push_back(p.min_p);
  }
  Result out;
  out.tokens.resize(rows);
  out.logprobs.resize(rows);
  out.max.resize(rows);
  out.log_total.resize(rows);
  out.broken.resize(rows);
  const int64_t width = std::max<int64_t>(0, std::min(top, vocab));
  out.top_ids.resize(rows * static_cast<size_t>(width));
  out.top_values.resize(rows * static_cast<size_t>(width));
  SampleArgs a;
  a.rows = static_cast<int64_t>(rows);
  a.logits = logits.data();
  a.stride = vocab;
  a.temperature = temperature.data();
  a.top_k = top_k.data();
  a.top_p = top_p.data();
  a.min_p = min_p.data();
  a.uniform = uniform.data();
  a.top_counts = counts.data();
  a.top_width = width;
  a.tokens = out.tokens.data();
  a.broken = reinterpret_cast<bool*>(out.broken.data());
  a.logprobs = out.logprobs.data();
  a.top_ids = out.top_ids.data();
  a.top_values = out.top_values.data();
  a.max = out.max.data();
  a.log_total = out.log_total.data();
  sampler.Sample(pool, a);
  return out;
}

// Ids by falling exponent, equals by rising id; how many are kept; and their weights.
struct Reference {
  std::vector<int64_t> order;
  std::vector<double> weight;  // by rank
  double total = 0;
  double mass = 0;  // of the kept
  size_t kept = 0;

  Reference(const float* x, int64_t vocab, const Params& p) {
    order.resize(static_cast<size_t>(vocab));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x[a] > x[b]; });
    const float max = x[order[0]];
    for (int64_t id : order) weight.push_back(std::exp(double{(x[id] - max) / p.temperature}));
    total = std::accumulate(weight.begin(), weight.end(), 0.0);
    const size_t k = p.top_k < 1 ? order.size() : static_cast<size_t>(p.top_k);
    for (; kept < order.size() && kept < k; ++kept) {
      if (kept > 0 && ((p.top_p < 1 && mass > p.top_p * total) || weight[kept] < p.min_p)) break;
      mass += weight[kept];
    }
  }

  // Whether `token` may stand at quantile u: rounding may move borders a little.
  bool Allows(int64_t token, double u, bool by_id) const {
    std::vector<size_t> line(kept);
    std::iota(line.begin(), line.end(), size_t{0});
    if (by_id) {
      std::sort(line.begin(), line.end(), [&](size_t a, size_t b) { return order[a] < order[b]; });
    }
    double sum = 0;
    for (size_t rank : line) {
      const double next = sum + weight[rank];
      if (order[rank] == token) {
        return u * mass > sum - 1e-5 * mass && u * mass < next + 1e-5 * mass;
      }
      sum = next;
    }
    return false;
  }
};

const Params kParams[] = {{1, 0, 1, 0},      {0.7f, 0, 1, 0},     {1, 40, 1, 0},   {1, 0, 0.9, 0},
                          {1, 0, 1, 0.05},   {1.3f, 200, 0.8, 0}, {3, 0, 0.95, 0}, {1, 7, 0.5, 0.2},
                          {0.2f, 5, 0.3, 0}, {2, 0, 0.999, 1e-4}, {1, 1, 1, 0},    {0, 0, 1, 0}};

void AgreesWithDefinition(const Kernels& kernels, int64_t vocab, float spread) {
  Random rng(static_cast<uint32_t>(vocab));
  std::vector<float> logits;
  std::vector<Params> params;
  std::vector<double> uniform;
  for (int i = 0; i < 60; ++i) {
    const std::vector<float> row = rng.Floats(vocab, spread);
    logits.insert(logits.end(), row.begin(), row.end());
    params.push_back(kParams[i % 12]);
    uniform.push_back((i * 37 % 101 + 0.5) / 101.0);
  }
  const Result got = Run(kernels, 2, logits, vocab, params, uniform, 3);
  for (size_t r = 0; r < params.size(); ++r) {
    const float* x = logits.data() + static_cast<int64_t>(r) * vocab;
    Params p = params[r];
    const bool greedy = p.top_k == 1 || !(p.temperature > 0);
    if (greedy) p.temperature = 1;
    const Reference want(x, vocab, p);
    const int64_t token = got.tokens[r];
    if (greedy) {
      CHECK(token == want.order[0]);
    } else {
      const bool by_id = (p.top_k < 1 || p.top_k >= vocab) && p.top_p >= 1 && p.min_p <= 0;
      CHECK(want.Allows(token, uniform[r], by_id));
    }
    CHECK(!got.broken[r]);
    const auto logprob = [&](int64_t id) {
      return double{(x[id] - x[want.order[0]]) / p.temperature} - std::log(want.total);
    };
    CHECK_NEAR(got.logprobs[r], logprob(token), 1e-5);
    const size_t width = static_cast<size_t>(std::min<int64_t>(3, vocab));
    for (size_t j = 0; j < width; ++j) {
      CHECK(got.top_ids[r * width + j] == want.order[j]);
      CHECK_NEAR(got.top_values[r * width + j], logprob(want.order[j]), 1e-5);
    }
  }
  // The same bits alone and on other numbers of threads.
  for (size_t r = 0; r < params.size(); r += 7) {
    const std::vector<float> row(logits.begin() + static_cast<int64_t>(r) * vocab,
                                 logits.begin() + static_cast<int64_t>(r + 1) * vocab);
    const Result alone = Run(kernels, 1, row, vocab, {params[r]}, {uniform[r]}, 3);
    CHECK(alone.tokens[0] == got.tokens[r] && alone.logprobs[0] == got.logprobs[r]);
  }
}

// Every kept token is drawn where its share of the quantiles lies: walk all of them.
void CoversTheQuantiles(const Kernels& kernels) {
  const std::vector<float> x = {std::log(4.0f), std::log(1.0f), std::log(3.0f), std::log(2.0f)};
  const Params p = {1, 3, 1, 0};  // kept: 4, 3, 2 of 9
  std::vector<float> logits;
  std::vector<double> uniform;
  for (int i = 0; i < 90; ++i) {
    logits.insert(logits.end(), x.begin(), x.end());
    uniform.push_back((i + 0.5) / 90);
  }
  const Result got = Run(kernels, 1, logits, 4, std::vector<Params>(90, p), uniform, -1);
  for (size_t i = 0; i < 90; ++i) CHECK(got.tokens[i] == (i < 40 ? 0 : i < 70 ? 2 : 3));
}

void TiesGoByIds(const Kernels& kernels) {
  const std::vector<float> x(300, 2.0f);
  const Result got = Run(kernels, 1, x, 300, {{1, 10, 1, 0}}, {0.95}, 4);
  CHECK(got.tokens[0] == 9);
  CHECK(got.top_ids[0] == 0 && got.top_ids[3] == 3);
  CHECK(Run(kernels, 1, x, 300, {{1, 1, 1, 0}}, {0.5}, -1).tokens[0] == 0);
}

void ForbiddenTokensAreNeverDrawn(const Kernels& kernels) {
  for (const Params& p : kParams) {
    std::vector<float> x(500, -INFINITY);
    x[17] = 3;
    x[450] = 2;
    for (double u : {1e-9, 0.4, 0.9, 1 - 1e-12}) {
      const Result got = Run(kernels, 1, x, 500, {p}, {u}, 5);
      CHECK(got.tokens[0] == 17 || got.tokens[0] == 450);
      CHECK(got.top_ids[0] == 17 && got.top_ids[1] == 450 && got.top_ids[2] == 0);
      CHECK(got.top_values[2] == -INFINITY);
    }
  }
}

void BrokenRowsAreReported(const Kernels& kernels) {
  Random rng(3);
  for (int64_t vocab : {1, 5, 64, 333}) {
    for (float bad : {NAN, INFINITY}) {
      std::vector<float> x = rng.Floats(vocab);
      x[static_cast<size_t>(vocab / 2)] = bad;
      const Result got = Run(kernels, 2, x, vocab, {{1, 0, 0.9, 0}}, {0.3}, 2);
      CHECK(got.broken[0]);
      CHECK(got.tokens[0] >= 0 && got.tokens[0] < vocab && std::isfinite(got.logprobs[0]));
      if (vocab > 1) CHECK(got.tokens[0] != vocab / 2);
    }
    const std::vector<float> none(static_cast<size_t>(vocab), -INFINITY);
    const Result got = Run(kernels, 2, none, vocab, {{1, 0, 1, 0}}, {0.3}, -1);
    CHECK(got.broken[0] && got.tokens[0] == 0);
  }
  // Parameters that are no numbers, or far out, must not run wild.
  const std::vector<float> x = rng.Floats(300);
  for (const Params& p : {Params{NAN, 0, 1, 0}, Params{1, 0, NAN, NAN}, Params{1, -5, 0, 7},
                          Params{1e-30f, 0, 1, 0}, Params{INFINITY, 0, 0.5, 0}}) {
    for (double u : {double{NAN}, -1.0, 2.0}) {
      const int64_t token = Run(kernels, 1, x, 300, {p}, {u}, 3).tokens[0];
      CHECK(token >= 0 && token < 300);
    }
  }
}

}  // namespace
}  // namespace sgl::test

int main() {
  using namespace sgl::test;
  for (const sgl::Kernels* kernels : AllKernels()) {
    std::printf("%s\n", kernels->name);
    for (int64_t vocab : {1, 2, 31, 256, 257, 3000, 6000}) {
      for (float spread : {0.01f, 1.0f, 4.0f}) AgreesWithDefinition(*kernels, vocab, spread);
    }
    CoversTheQuantiles(*kernels);
    TiesGoByIds(*kernels);
    ForbiddenTokensAreNeverDrawn(*kernels);
    BrokenRowsAreReported(*kernels);
  }
}
