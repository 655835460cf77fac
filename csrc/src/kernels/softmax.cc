// Kernels over one row of logits: softmax weights and keys to rank tokens by.
#include "kernels/table.h"

namespace sgl::SGL_ISA {
namespace {

constexpr float kLeast = -87.0f;  // exponents below give weight 0, as exp does in 32 bits (almost)

SGL_INLINE VF Exponent(VF x, SoftmaxScale scale) {
  const VF moved = Sub(x, Set(scale.max));
  return scale.temperature == 1.0f ? moved : Div(moved, Set(scale.temperature));
}

SGL_INLINE VF Weight(VF exponent) { return KeepFrom(Set(kLeast), exponent, Exp(exponent)); }

SGL_INLINE uint64_t Key(float exponent, int64_t i) {
  return static_cast<uint64_t>(FloatBits(exponent) & 0x7fffffffu) << 32 | static_cast<uint64_t>(i);
}

}  // namespace

bool HasNaN(const float* x, int64_t count) {
  VF largest = Zero();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) largest = MaxMagnitude(largest, Load(x + i));
  if (i < count) largest = MaxMagnitude(largest, LoadTail(x + i, count - i));
  return __builtin_isnan(ReduceMagnitude(largest));
}

double SoftmaxWeights(const float* x, int64_t count, SoftmaxScale scale, float* weights,
                      double* sums) {
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kSumBlock) {
    const int64_t end = Smaller(begin + kSumBlock, count);
    VF sum = Zero();
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const VF w = Weight(Exponent(Load(x + i), scale));
      Store(weights + i, w);
      sum = Add(sum, w);
    }
    float tail = 0;
    if (i < end) {
      StoreTail(weights + i, Weight(Exponent(LoadTail(x + i, end - i), scale)), end - i);
      for (; i < end; ++i) tail += weights[i];
    }
    sums[begin / kSumBlock] = ReduceAdd(sum) + tail;
    total += sums[begin / kSumBlock];
  }
  return total;
}

int64_t RankKeys(const float* x, int64_t count, SoftmaxScale scale, float above, uint64_t* keys) {
  const VF limit = Set(above);
  int64_t found = 0;
  int64_t i = 0;
  float lane[kLanes];
  for (; i + kLanes <= count; i += kLanes) {
    const VF exponent = Exponent(Load(x + i), scale);
    if (!AnyGreater(exponent, limit)) continue;
    Store(lane, exponent);
    for (int j = 0; j < kLanes; ++j) {
      // Written always, counted if it belongs: no branch to mispredict.
      keys[found] = Key(lane[j], i + j);
      found += lane[j] > above ? 1 : 0;
    }
  }
  if (i < count) {
    Store(lane, Exponent(LoadTail(x + i, count - i), scale));
    for (int j = 0; i + j < count; ++j) {
      if (lane[j] > above) keys[found++] = Key(lane[j], i + j);
    }
  }
  return found;
}

}  // namespace sgl::SGL_ISA
