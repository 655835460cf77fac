// Repacks weights once at load: GGUF blocks or dense rows -> tiles that the SIMD units like.
//
// A tile holds nr output features (nr = floats in a SIMD register of the kernels in use). Features
// past n are zero.
//   dense:      [k][nr] elements
//   quantised:  per 32 of k: scales, then quants. One stream: reading scales and quants from two
//               places halves the bandwidth that one core gets from memory.
//     scales    per group (one or two in 32): nr scales, nr minimums if the format has them;
//     float16
//               or float32
//     quants    vectors of nr * 4 bytes, feature-major, 4 neighbours of k (a quad) per feature
//       4 bit   vectors v = 0..3: low nibble = quad v, high nibble = quad v + 4
//       5 bit   + one vector: bit j = bit 4 of quad j
//       6 bit   + two vectors: vector h holds bits 4-5 of quad 4h + j at bit 2j
//       8 bit   vectors 0..7: quad v, signed (q - 128)
#pragma once

#include <cstdint>

#include "sgl/tensor.h"

namespace sgl {

// Bytes of one GGUF row of k values; -1 if the type is unknown or k does not fit its blocks.
int64_t GgufRowBytes(GgufType type, int64_t k);

// The format that PackGguf gives a type.
Format PackedFormat(GgufType type);

// Shape of the packed form of an [n, k] matrix; `data` stays null. k % 32 == 0 for quantised ones.
PackedWeight PackedLayout(Format format, int64_t n, int64_t k, int nr);

// Bytes to allocate (64-byte aligned) for a layout.
int64_t PackedBytes(const PackedWeight& w);

// Packs tiles [tile_begin, tile_end) of a row-major GGUF matrix [w.n, w.k] into `out` (the start of
// the whole packed matrix, PackedBytes long, not overlapping `rows`). Values equal the GGUF
// dequantisation up to float rounding. Threads may pack disjoint tile ranges at the same time.
void PackGguf(GgufType type, const void* rows, const PackedWeight& w, int64_t tile_begin,
              int64_t tile_end, uint8_t* out);

// Quantises float rows [w.n, w.k] to w.format (kQ8_0, kQ4_0 or kQ4_1) and packs them, as above.
void PackQuantized(const float* rows, const PackedWeight& w, int64_t tile_begin, int64_t tile_end,
                   uint8_t* out);

// Writes one row (output feature n) of a packed matrix as float: out[w.k].
void UnpackRow(const PackedWeight& w, int64_t n, float* out);

// Writes a GGUF row of k values as float, straight from its definition (reference, embeddings).
void DequantizeGgufRow(GgufType type, const void* row, int64_t k, float* out);

}  // namespace sgl
