// Kernels over one row: quantisation, norm, gates, rotary, storage, argmax.
#include "kernels/table.h"

namespace sgl::SGL_ISA {
namespace {

// f(vector) over count values, in place or not; the tail goes through zero-padded lanes.
template <class F>
SGL_INLINE void Map(const float* x, int64_t count, float* out, F f) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(out + i, f(Load(x + i)));
  if (i < count) StoreTail(out + i, f(LoadTail(x + i, count - i)), count - i);
}

template <class F>
SGL_INLINE void Map2(const float* x, const float* y, int64_t count, float* out, F f) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(out + i, f(Load(x + i), Load(y + i)));
  if (i < count) {
    const int64_t left = count - i;
    StoreTail(out + i, f(LoadTail(x + i, left), LoadTail(y + i, left)), left);
  }
}

// Fills in what follows from q.
SGL_INLINE void FinishBlock(float scale, float middle, QBlock* out) {
  int32_t lo;
  int32_t hi;
  SumHalves(out->q, &lo, &hi);
  out->scale = scale;
  out->scaled_sum = scale * static_cast<float>(lo + hi) + 32.0f * middle;
  out->neg_sum = -(lo + hi);
  out->neg_sum_lo = -lo;
}

SGL_INLINE void QuantizeBlock(const float* x, QBlock* out) {
  VF largest = Zero();
  for (int i = 0; i < 32; i += kLanes) largest = MaxMagnitude(largest, Load(x + i));
  const float absmax = ReduceMagnitude(largest);
  const float inverse = absmax > 0 ? 127.0f / absmax : 0.0f;
  for (int i = 0; i < 32; i += kLanes) {
    StoreI8(out->q + i, ToInt(Mul(Load(x + i), Set(inverse))));
  }
  FinishBlock(absmax / 127.0f, 0.0f, out);
}

SGL_INLINE float QuantizeBlockCentered(const float* x, QBlock* out) {
  VF largest = Load(x);
  VF smallest = largest;
  bool nan = AnyNaN(largest, largest);
  for (int i = kLanes; i < 32; i += kLanes) {
    const VF v = Load(x + i);
    nan |= AnyNaN(v, v);  // it may get lost between largest and smallest
    largest = Max(largest, v);
    smallest = Min(smallest, v);
  }
  float high;
  float low;
  ReduceRange(largest, smallest, &high, &low);
  const bool finite = !nan && high <= 3.4028235e38f && low >= -3.4028235e38f;
  const float lost = nan ? __builtin_nanf("") : __builtin_inff();
  const float middle = finite ? 0.5f * high + 0.5f * low : lost;
  const float half = finite ? 0.5f * high - 0.5f * low : lost;
  const float inverse = half > 0 ? 127.0f / half : 0.0f;
  for (int i = 0; i < 32; i += kLanes) {
    StoreI8(out->q + i, ToInt(Mul(Sub(Load(x + i), Set(middle)), Set(inverse))));
  }
  FinishBlock(half / 127.0f, middle, out);
  return middle;
}

SGL_INLINE void RotateHalves(float* x, const float* cos, const float* sin, int half) {
  int i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const VF a = Load(x + i);
    const VF b = Load(x + half + i);
    const VF c = Load(cos + i);
    const VF s = Load(sin + i);
    Store(x + i, Sub(Mul(a, c), Mul(b, s)));
    Store(x + half + i, Add(Mul(b, c), Mul(a, s)));
  }
  for (; i < half; ++i) {
    const float a = x[i];
    const float b = x[half + i];
    x[i] = a * cos[i] - b * sin[i];
    x[half + i] = b * cos[i] + a * sin[i];
  }
}

SGL_INLINE void RotatePairs(float* x, const float* cos, const float* sin, int half) {
  for (int i = 0; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = a * cos[i] - b * sin[i];
    x[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

}  // namespace

void Quantize(const float* x, int64_t k, QBlock* out) {
  for (int64_t g = 0; g < k / 32; ++g) QuantizeBlock(x + g * 32, out + g);
}

void QuantizeCentered(const float* x, int64_t k, QBlock* out, float* middles) {
  for (int64_t g = 0; g < k / 32; ++g) middles[g] = QuantizeBlockCentered(x + g * 32, out + g);
}

void RmsNorm(const float* x, const float* weight, float eps, int64_t k, float* out) {
  VF squares = Zero();
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) squares = Fma(Load(x + i), Load(x + i), squares);
  if (i < k) {
    const VF tail = LoadTail(x + i, k - i);
    squares = Fma(tail, tail, squares);
  }
  const float mean = ReduceAdd(squares) / static_cast<float>(k);
  const VF factor = Set(1.0f / __builtin_sqrtf(mean + eps));
  Map2(x, weight, k, out, [&](VF v, VF w) { return Mul(Mul(v, factor), w); });
}

void AddScaled(const float* y, float factor, int64_t k, float* acc) {
  const VF f = Set(factor);
  Map2(acc, y, k, acc, [&](VF a, VF v) { return Fma(v, f, a); });
}

void Glu(const float* gate, const float* up, Gate kind, int64_t k, float* out) {
  const VF one = Set(1.0f);
  if (kind == Gate::kSilu) {
    Map2(gate, up, k, out,
         [&](VF g, VF u) { return Mul(Div(g, Add(one, Exp(Sub(Zero(), g)))), u); });
    return;
  }
  // 0.5 g (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3))) = g / (1 + e^(-2 ...))
  Map2(gate, up, k, out, [&](VF g, VF u) {
    const VF cubic = Mul(Fma(Mul(g, g), Set(0.044715f), one), g);
    return Mul(Div(g, Add(one, Exp(Mul(cubic, Set(-1.5957691216f))))), u);
  });
}

void Rope(float* x, int32_t heads, int32_t head_dim, int32_t position, const RopeArgs& args) {
  const int half = args.rotary_dim / 2;
  const float* cos = args.cos + static_cast<int64_t>(position) * half;
  const float* sin = args.sin + static_cast<int64_t>(position) * half;
  for (int32_t h = 0; h < heads; ++h) {
    if (args.interleaved) {
      RotatePairs(x + h * head_dim, cos, sin, half);
    } else {
      RotateHalves(x + h * head_dim, cos, sin, half);
    }
  }
}

void StoreAs(const float* x, int64_t count, DType type, void* out) {
  if (type == DType::kF32) {
    __builtin_memcpy(out, x, static_cast<size_t>(count) * 4);
    return;
  }
  uint16_t* half = static_cast<uint16_t*>(out);
  int64_t i = 0;
  if (type == DType::kF16) {
    for (; i + kLanes <= count; i += kLanes) StoreHalf(half + i, Load(x + i));
    for (; i < count; ++i) half[i] = FloatToHalf(x[i]);
    return;
  }
  for (; i < count; ++i) half[i] = FloatToBf16(x[i]);
}

void StoreInt8(const float* x, int64_t count, int8_t* out, float* scale) {
  VF largest = Zero();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) largest = MaxMagnitude(largest, Load(x + i));
  if (i < count) largest = MaxMagnitude(largest, LoadTail(x + i, count - i));
  const float absmax = ReduceMagnitude(largest);
  const VF inverse = Set(absmax > 0 ? 127.0f / absmax : 0.0f);
  for (i = 0; i + kLanes <= count; i += kLanes) {
    StoreI8(out + i, ToInt(Mul(Load(x + i), inverse)));
  }
  int8_t lane[kLanes];
  if (i < count) StoreI8(lane, ToInt(Mul(LoadTail(x + i, count - i), inverse)));
  for (int64_t j = i; j < count; ++j) out[j] = lane[j - i];
  *scale = absmax / 127.0f;
}

int64_t ArgMax(const float* x, int64_t count, float* max) {
  VF best = Set(-__builtin_inff());
  int64_t i = 0;
  // The candidate comes second in Max: x86 returns the second operand if one is NaN.
  for (; i + kLanes <= count; i += kLanes) best = Max(Load(x + i), best);
  float top = ReduceMax(best);
  for (; i < count; ++i) top = x[i] > top ? x[i] : top;
  *max = top;
  const VF wanted = Set(top);
  for (i = 0; i + kLanes <= count && !AnyEqual(Load(x + i), wanted);) i += kLanes;
  for (; i < count; ++i) {
    if (x[i] == top) return i;
  }
  return 0;
}

bool AnyAbove(const float* x, int64_t count, float threshold) {
  const VF t = Set(threshold);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    if (AnyGreater(Load(x + i), t)) return true;
  }
  for (; i < count; ++i) {
    if (x[i] > threshold) return true;
  }
  return false;
}

void SoftCap(float* x, int64_t count, float cap) {
  const VF c = Set(cap);
  const VF inverse = Set(1.0f / cap);
  Map(x, count, x, [&](VF v) { return Mul(c, Tanh(Mul(v, inverse))); });
}

}  // namespace sgl::SGL_ISA
