// What the kernel files of one instruction set share.
#pragma once

#include "sgl/kernels.h"
#include "simd.h"

namespace sgl::SGL_ISA {

void Quantize(const float* x, int64_t k, QBlock* out);
void QuantizeCentered(const float* x, int64_t k, QBlock* out, float* middles);
void MatmulQuant(const MatmulArgs& a, int64_t r0, int64_t r1, int64_t t0, int64_t t1);
void MatmulDense(const MatmulArgs& a, int64_t r0, int64_t r1, int64_t t0, int64_t t1);
void RmsNorm(const float* x, const float* weight, float eps, int64_t k, float* out);
void AddScaled(const float* y, float factor, int64_t k, float* acc);
void Glu(const float* gate, const float* up, Gate kind, int64_t k, float* out);
void Rope(float* x, int32_t heads, int32_t head_dim, int32_t position, const RopeArgs& args);
void StoreAs(const float* x, int64_t count, DType type, void* out);
void StoreInt8(const float* x, int64_t count, int8_t* out, float* scale);
void AttentionBlock(const AttentionBlockArgs& args);
void AttentionMerge(const float* partial, int64_t head_dim, float* running);
void AttentionFinish(const float* running, int64_t head_dim, float* out);
bool HasNaN(const float* x, int64_t count);
double SoftmaxWeights(const float* x, int64_t count, SoftmaxScale scale, float* weights,
                      double* sums);
int64_t RankKeys(const float* x, int64_t count, SoftmaxScale scale, float above, uint64_t* keys);
float ProbeInt8(int64_t rounds);
float ProbeF32(int64_t rounds);
int64_t ArgMax(const float* x, int64_t count, float* max);
bool AnyAbove(const float* x, int64_t count, float threshold);
void SoftCap(float* x, int64_t count, float cap);

// The last kLanes - 1 or fewer values of an array: missing lanes are zero.
SGL_INLINE VF LoadTail(const float* p, int64_t count) {
  float lane[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lane[i] = p[i];
  return Load(lane);
}

SGL_INLINE void StoreTail(float* p, VF v, int64_t count) {
  float lane[kLanes];
  Store(lane, v);
  for (int64_t i = 0; i < count; ++i) p[i] = lane[i];
}

// Epilogue of a matmul tile: bias, accumulation, columns past n dropped.
SGL_INLINE void WriteTile(const MatmulArgs& a, int64_t row, int64_t feature, VF acc) {
  float* out = a.out + row * a.out_stride + feature - a.out_column;
  const int64_t left = a.w->n - feature;
  if (left >= kLanes) {
    if (a.bias != nullptr) acc = Add(acc, Load(a.bias + feature));
    if (a.accumulate) acc = Add(Load(out), acc);
    Store(out, acc);
    return;
  }
  if (a.bias != nullptr) acc = Add(acc, LoadTail(a.bias + feature, left));
  if (a.accumulate) acc = Add(LoadTail(out, left), acc);
  StoreTail(out, acc, left);
}

}  // namespace sgl::SGL_ISA
