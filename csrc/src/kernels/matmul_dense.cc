// Dense matmul: float32 activations x float32 / float16 / bfloat16 weights. Every output is one
// chain of multiply-adds in ascending order of k.
#include "kernels/table.h"

namespace sgl::SGL_ISA {
namespace {

// kRows rows x kTiles tiles: enough independent chains to fill the pipeline.
template <DType kType, int kRows, int kTiles>
void Block(const MatmulArgs& a, int64_t row, int64_t tile) {
  const PackedWeight& w = *a.w;
  const float* x = static_cast<const float*>(a.x) + row * a.x_stride;
  const uint8_t* data[kTiles];
  VF acc[kRows][kTiles];
#pragma GCC unroll 8
  for (int t = 0; t < kTiles; ++t) {
    data[t] = w.data + (tile + t) * w.tile_bytes;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) acc[r][t] = Zero();
  }
  for (int64_t k = 0; k < w.k; ++k) {
    VF b[kTiles];
#pragma GCC unroll 8
    for (int t = 0; t < kTiles; ++t) b[t] = LoadAs<kType>(data[t], k * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const VF v = Set(x[r * a.x_stride + k]);
#pragma GCC unroll 8
      for (int t = 0; t < kTiles; ++t) acc[r][t] = Fma(v, b[t], acc[r][t]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int t = 0; t < kTiles; ++t) WriteTile(a, row + r, (tile + t) * kLanes, acc[r][t]);
  }
}

template <DType kType, int kTiles>
void Column(const MatmulArgs& a, int64_t row_begin, int64_t row_end, int64_t tile) {
  int64_t row = row_begin;
  for (; row_end - row >= 4; row += 4) Block<kType, 4, kTiles>(a, row, tile);
  for (; row < row_end; ++row) Block<kType, 1, kTiles>(a, row, tile);
}

template <DType kType>
void Matmul(const MatmulArgs& a, int64_t row_begin, int64_t row_end, int64_t tile_begin,
            int64_t tile_end) {
  int64_t tile = tile_begin;
  if (row_end - row_begin < 4) {
    for (; tile_end - tile >= 4; tile += 4) Column<kType, 4>(a, row_begin, row_end, tile);
  }
  for (; tile_end - tile >= 2; tile += 2) Column<kType, 2>(a, row_begin, row_end, tile);
  for (; tile < tile_end; ++tile) Column<kType, 1>(a, row_begin, row_end, tile);
}

}  // namespace

void MatmulDense(const MatmulArgs& a, int64_t r0, int64_t r1, int64_t t0, int64_t t1) {
  switch (a.w->format) {
    case Format::kF32:
      return Matmul<DType::kF32>(a, r0, r1, t0, t1);
    case Format::kF16:
      return Matmul<DType::kF16>(a, r0, r1, t0, t1);
    case Format::kBf16:
      return Matmul<DType::kBf16>(a, r0, r1, t0, t1);
    default:
      return;
  }
}

}  // namespace sgl::SGL_ISA
