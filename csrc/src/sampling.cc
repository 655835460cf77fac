#include "sgl/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "half.h"

namespace sgl {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kRepaired = -1e5f;
constexpr float kHottest = 1e38f;  // larger temperatures change nothing
// Exponents that are tried in turn as the end of the list that can matter: mostly a few hundred
// tokens decide.
constexpr float kCuts[] = {-5.0f, -10.0f, -18.0f, kNever};
// Covers the rounding of a sum that adds in another order than its user does.
constexpr double kMassSlack = 1 + 1e-6;

// Longer lists are first dealt into buckets of 1/32 of the exponent, and only the buckets where
// something is decided get sorted.
constexpr int64_t kSortAtOnce = 256;
constexpr int kBucketsPerUnit = 32;
constexpr int kBuckets = 40 * kBucketsPerUnit;

float ExponentOf(uint64_t key) { return -BitsFloat(static_cast<uint32_t>(key >> 32)); }
int64_t IdOf(uint64_t key) { return static_cast<int64_t>(key & 0xffffffffu); }

int BucketOf(uint64_t key) {
  const float depth = -ExponentOf(key) * kBucketsPerUnit;
  return depth < kBuckets - 1 ? static_cast<int>(depth) : kBuckets - 1;
}

struct Bucket {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t kept = 0;  // of its tokens, the first
  double mass = 0;   // of the kept ones
  bool sorted = false;
};

}  // namespace

struct Sampler::Scratch {
  std::vector<float> repaired;
  std::vector<float> weights;
  std::vector<double> sums;
  std::vector<uint64_t> keys;
  std::vector<uint64_t> dealt;
  std::vector<Bucket> buckets;

  void Reserve(int64_t vocab) {
    const auto n = static_cast<size_t>(vocab);
    weights.resize(n);
    sums.resize((n + kSumBlock - 1) / kSumBlock);
    keys.resize(n + 1);  // the kernel writes one past what it keeps
    dealt.resize(n);
  }
};

// One row on its way from logits to a token.
class Sampler::Row {
 public:
  Row(const Kernels& kernels, int64_t vocab, Scratch& scratch, const SampleArgs& args, int64_t row)
      : kernels_(kernels),
        vocab_(vocab),
        s_(scratch),
        a_(args),
        r_(row),
        x_(args.logits + row * args.stride) {}

  void Run() {
    int64_t token = kernels_.argmax(x_, vocab_, &scale_.max);
    const bool broken = !std::isfinite(scale_.max) || kernels_.has_nan(x_, vocab_);
    if (broken) {
      Repair();
      token = kernels_.argmax(x_, vocab_, &scale_.max);
    }
    const bool greedy = broken || a_.top_k[r_] == 1 || !(a_.temperature[r_] > 0);
    const int64_t top = a_.top_counts == nullptr ? -1 : a_.top_counts[r_];
    if (!greedy) scale_.temperature = std::min(a_.temperature[r_], kHottest);
    if (!greedy || top >= 0) {
      total_ = kernels_.softmax_weights(x_, vocab_, scale_, s_.weights.data(), s_.sums.data());
    }
    if (!greedy) token = Filtered() ? DrawFiltered() : DrawFromAll();
    a_.tokens[r_] = token;
    a_.broken[r_] = broken;
    Describe(token, top);
  }

 private:
  void Repair() {
    s_.repaired.assign(x_, x_ + vocab_);
    for (float& v : s_.repaired) v = std::isfinite(v) ? v : kRepaired;
    x_ = s_.repaired.data();
  }

  bool Filtered() const { return TopK() < vocab_ || a_.top_p[r_] < 1 || a_.min_p[r_] > 0; }

  int64_t TopK() const {
    const int64_t k = a_.top_k[r_];
    return k < 1 || k > vocab_ ? vocab_ : k;
  }

  double Weight(uint64_t key) const { return s_.weights[static_cast<size_t>(IdOf(key))]; }

  // In the order of ids: sums of blocks first, so that one block only is added token by token.
  int64_t DrawFromAll() const {
    const double target = a_.uniform[r_] * total_;
    double sum = 0;
    int64_t last = 0;  // last block that adds something
    for (int64_t b = 0; b < static_cast<int64_t>(s_.sums.size()); ++b) {
      const double block = s_.sums[static_cast<size_t>(b)];
      if (block <= 0) continue;
      last = b;
      if (sum + block > target) break;
      sum += block;
    }
    const int64_t begin = last * kSumBlock;
    const int64_t end = std::min(begin + kSumBlock, vocab_);
    if (sum > target) sum = target;
    int64_t token = begin;
    for (int64_t i = begin; i < end; ++i) {
      const double w = s_.weights[static_cast<size_t>(i)];
      if (w <= 0) continue;
      token = i;
      sum += w;
      if (sum > target) break;
    }
    return token;
  }

  // A token is kept if it is among the top_k first, if the mass of all before it is at most top_p
  // of the total, and if it has min_p of the largest weight (which is 1).
  int64_t DrawFiltered() {
    const int64_t k = TopK();
    const double mass =
        a_.top_p[r_] < 1 ? a_.top_p[r_] * total_ : std::numeric_limits<double>::infinity();
    const double least = std::max(a_.min_p[r_], 0.0);
    Deal(Candidates(k, mass, least));
    const double kept = Keep(k, mass, least);
    return Pick(a_.uniform[r_] * kept);
  }

  // Keys of the first tokens: at least `k` of them, or more than `mass`, or all of weight `least`.
  int64_t Candidates(int64_t k, double mass, double least) {
    const double lowest = least > 0 ? std::log(least) : kNever;
    int64_t count = 0;
    for (float cut : kCuts) {
      count = kernels_.rank_keys(x_, vocab_, scale_, cut, s_.keys.data());
      if (count >= k || cut < lowest) break;
      if (std::isfinite(mass)) {
        double sum = 0;
        for (int64_t i = 0; i < count; ++i) sum += Weight(s_.keys[static_cast<size_t>(i)]);
        if (sum > mass * kMassSlack) break;
      }
    }
    return count;
  }

  // Deals keys[count] into buckets of falling exponents.
  void Deal(int64_t count) {
    s_.buckets.clear();
    if (count <= kSortAtOnce) {
      std::copy(s_.keys.begin(), s_.keys.begin() + count, s_.dealt.begin());
      s_.buckets.resize(1);
      s_.buckets[0].end = count;
      return;
    }
    s_.buckets.resize(kBuckets);
    for (int64_t i = 0; i < count; ++i) {
      ++s_.buckets[static_cast<size_t>(BucketOf(s_.keys[static_cast<size_t>(i)]))].end;
    }
    int64_t at = 0;
    for (Bucket& b : s_.buckets) {
      b.begin = at;
      at += b.end;
      b.end = b.begin;
    }
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t key = s_.keys[static_cast<size_t>(i)];
      s_.dealt[static_cast<size_t>(s_.buckets[static_cast<size_t>(BucketOf(key))].end++)] = key;
    }
  }

  // Marks what the filters keep; returns its mass.
  double Keep(int64_t k, double mass, double least) {
    double sum = 0;
    bool done = false;
    for (size_t i = 0; i < s_.buckets.size(); ++i) {
      Bucket& b = s_.buckets[i];
      if (done || b.begin == b.end) continue;
      const int64_t size = b.end - b.begin;
      double all = 0;
      for (int64_t j = b.begin; j < b.end; ++j) all += Weight(s_.dealt[static_cast<size_t>(j)]);
      if (size <= k && sum + all <= mass && Above(i, least)) {
        b.kept = size;
        b.mass = all;
        sum += all;
        k -= size;
        continue;
      }
      Sort(b);
      for (int64_t j = b.begin; j < b.end; ++j) {
        const double w = Weight(s_.dealt[static_cast<size_t>(j)]);
        // The first token of all stays, whatever the filters say.
        done = (k <= 0 || sum > mass || w < least) && (i > 0 || j > b.begin);
        if (done) break;
        ++b.kept;
        b.mass += w;
        sum += w;
        --k;
      }
    }
    return sum;
  }

  // Whether every token of a bucket surely has a weight of `least`.
  bool Above(size_t bucket, double least) const {
    if (least <= 0) return true;
    if (s_.buckets.size() == 1 || bucket + 1 == kBuckets) return false;
    return std::exp(-static_cast<double>(bucket + 1) / kBucketsPerUnit) > least * 1.0001;
  }

  void Sort(Bucket& b) {
    if (!b.sorted) std::sort(s_.dealt.begin() + b.begin, s_.dealt.begin() + b.end);
    b.sorted = true;
  }

  // First kept token whose cumulative mass exceeds the target; never one that adds nothing.
  int64_t Pick(double target) {
    double sum = 0;
    Bucket* bucket = nullptr;
    for (Bucket& b : s_.buckets) {
      if (b.mass <= 0) continue;
      bucket = &b;
      if (sum + b.mass > target) break;
      sum += b.mass;
    }
    if (bucket == nullptr) return IdOf(s_.dealt[0]);
    if (sum > target) sum = target;
    Sort(*bucket);
    int64_t token = 0;
    for (int64_t j = bucket->begin; j < bucket->begin + bucket->kept; ++j) {
      const uint64_t key = s_.dealt[static_cast<size_t>(j)];
      const double w = Weight(key);
      if (w <= 0) continue;
      token = IdOf(key);
      sum += w;
      if (sum > target) break;
    }
    return token;
  }

  void Describe(int64_t token, int64_t top) {
    a_.max[r_] = scale_.max;
    a_.log_total[r_] = 0;
    a_.logprobs[r_] = 0;
    for (int64_t j = 0; j < a_.top_width; ++j) {
      a_.top_ids[r_ * a_.top_width + j] = -1;
      a_.top_values[r_ * a_.top_width + j] = 0;
    }
    if (top < 0) return;
    const double log_total = std::log(total_);
    a_.log_total[r_] = log_total;
    a_.logprobs[r_] = Exponent(token) - log_total;
    if (top > 0) Best(std::min(std::min(top, a_.top_width), vocab_), log_total);
  }

  float Exponent(int64_t id) const {
    const float moved = x_[id] - scale_.max;
    return scale_.temperature == 1.0f ? moved : moved / scale_.temperature;
  }

  void Best(int64_t top, double log_total) {
    int64_t count = 0;
    for (float cut : kCuts) {
      count = kernels_.rank_keys(x_, vocab_, scale_, cut, s_.keys.data());
      if (count >= top) break;
    }
    // What is impossible comes last, in order of ids.
    for (int64_t i = 0; count < top && i < vocab_; ++i) {
      if (Exponent(i) == kNever) {
        s_.keys[static_cast<size_t>(count++)] =
            uint64_t{0x7f800000} << 32 | static_cast<uint64_t>(i);
      }
    }
    std::partial_sort(s_.keys.begin(), s_.keys.begin() + top, s_.keys.begin() + count);
    for (int64_t j = 0; j < top; ++j) {
      const uint64_t key = s_.keys[static_cast<size_t>(j)];
      a_.top_ids[r_ * a_.top_width + j] = IdOf(key);
      a_.top_values[r_ * a_.top_width + j] = ExponentOf(key) - log_total;
    }
  }

  const Kernels& kernels_;
  const int64_t vocab_;
  Scratch& s_;
  const SampleArgs& a_;
  const int64_t r_;
  const float* x_;
  SoftmaxScale scale_;
  double total_ = 0;
};

Sampler::Sampler(const Kernels& kernels, int64_t vocab) : kernels_(kernels), vocab_(vocab) {}

Sampler::~Sampler() = default;

void Sampler::Sample(ThreadPool& pool, const SampleArgs& args) {
  if (threads_ < pool.size()) {
    scratch_ = std::make_unique<Scratch[]>(static_cast<size_t>(pool.size()));
    threads_ = pool.size();
    for (int t = 0; t < threads_; ++t) scratch_[static_cast<size_t>(t)].Reserve(vocab_);
  }
  pool.Run([&](Team& team) {
    Scratch& scratch = scratch_[static_cast<size_t>(team.rank())];
    team.For(args.rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) Row(kernels_, vocab_, scratch, args, r).Run();
    });
  });
}

}  // namespace sgl
