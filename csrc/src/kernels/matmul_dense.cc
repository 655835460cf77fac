// Dense matmul: float32 activations x float32 / float16 / bfloat16 weights. Every output is one
// chain of multiply-adds in ascending order of k.
#include "kernels/table.h"

namespace sgl::SGL_ISA {
namespace {

// Rows of the widest register tile: two tiles of weights, widened to float once for all of them.
constexpr int kMostRows = kLanes == 16 ? 8 : 6;
// Few rows need more tiles at once to have enough chains.
constexpr int kFewRows = kLanes == 16 ? 4 : 2;

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

// All tiles for exactly kRows rows.
template <DType kType, int kRows>
void Rows(const MatmulArgs& a, int64_t row, int64_t tile, int64_t tile_end) {
  constexpr int kTiles = kRows <= kFewRows ? 4 : kRows <= 4 ? 3 : 2;
  for (; tile_end - tile >= kTiles; tile += kTiles) Block<kType, kRows, kTiles>(a, row, tile);
  if (kTiles > 2 && tile_end - tile >= 2) {
    Block<kType, kRows, 2>(a, row, tile);
    tile += 2;
  }
  for (; tile < tile_end; ++tile) Block<kType, kRows, 1>(a, row, tile);
}

template <DType kType>
void FewRows(const MatmulArgs& a, int64_t row, int64_t rows, int64_t tile, int64_t tile_end) {
  switch (rows) {
    case 1:
      return Rows<kType, 1>(a, row, tile, tile_end);
    case 2:
      return Rows<kType, 2>(a, row, tile, tile_end);
    case 3:
      return Rows<kType, 3>(a, row, tile, tile_end);
    case 4:
      return Rows<kType, 4>(a, row, tile, tile_end);
    case 5:
      return Rows<kType, 5>(a, row, tile, tile_end);
    case 6:
      return Rows<kType, 6>(a, row, tile, tile_end);
    case 7:
      return Rows < kType, kMostRows<7 ? kMostRows : 7>(a, row, tile, tile_end);
    default:
      return Rows<kType, kMostRows>(a, row, tile, tile_end);
  }
}

template <DType kType>
void Matmul(const MatmulArgs& a, int64_t row_begin, int64_t row_end, int64_t tile_begin,
            int64_t tile_end) {
  if (row_end - row_begin <= kMostRows) {
    if (row_begin < row_end) {
      FewRows<kType>(a, row_begin, row_end - row_begin, tile_begin, tile_end);
    }
    return;
  }
  // Two tiles stay in the cache while all rows pass.
  for (int64_t tile = tile_begin; tile < tile_end; tile += 2) {
    const int64_t end = Smaller(tile + 2, tile_end);
    for (int64_t row = row_begin; row < row_end; row += kMostRows) {
      FewRows<kType>(a, row, Smaller<int64_t>(kMostRows, row_end - row), tile, end);
    }
  }
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
