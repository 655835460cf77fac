// Single-threaded kernels of one instruction set, as a table of functions.
//
// Nothing here starts threads or keeps state; calls on disjoint outputs may run at the same time.
// Batch invariance: each output row depends only on its own inputs. Its bits are the same whatever
// range of rows or tiles it is computed in. Pointers need the alignment of their element type only,
// packed weights 64 bytes. Outputs must not overlap inputs unless said so.
#pragma once

#include <cstdint>

#include "sgl/tensor.h"

namespace sgl {

struct MatmulArgs {
  const PackedWeight* w = nullptr;
  // Quantised weights: QBlock rows of w.k / 32 blocks. Dense weights: float rows of w.k.
  const void* x = nullptr;
  int64_t x_stride = 0;    // distance of two rows, in QBlocks or floats
  // Of blocks made by quantize_centered: [rows, w.k / 32], rows middle_stride floats apart.
  const float* middles = nullptr;
  int64_t middle_stride = 0;
  float* out = nullptr;    // [rows, n]; row r, feature c at out[r * out_stride + c - out_column]
  int64_t out_stride = 0;  // in floats
  int64_t out_column = 0;  // feature that lands at out[0]; a multiple of nr
  const float* bias = nullptr;  // [n] or null
  bool accumulate = false;      // out += x w^T (+ bias), else out = ...
};

enum class Gate : int32_t { kSilu = 0, kGeluTanh = 1 };

struct RopeArgs {
  const float* cos = nullptr;  // [positions, rotary_dim / 2]
  const float* sin = nullptr;
  int64_t positions = 0;     // rows of the tables
  int32_t rotary_dim = 0;    // <= head_dim; values past it are left alone
  bool interleaved = false;  // pairs (2i, 2i + 1) instead of (i, i + rotary_dim / 2)
};

struct AttentionShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;  // any; rows of the pool are padded (PaddedHeadDim)
  DType kv_type = DType::kF16;
  float scale = 1;     // of the scores
  float softcap = 0;   // scores become cap * tanh(score / cap); 0 = off
  int32_t window = 0;  // a query sees this many positions, its own included; 0 = all
};

// Floats or elements that a head takes in KV pools and partials: whole vectors of every instruction
// set. The padding of pool rows must hold zeros; nothing here writes to it.
constexpr int64_t PaddedHeadDim(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

// One block of 64 positions of one KV head, seen by any queries of any rows whose slots agree
// there.
struct AttentionBlockArgs {
  const AttentionShape* shape = nullptr;
  const void* k = nullptr;  // pool of this KV head [slots, PaddedHeadDim]
  const void* v = nullptr;
  const float* k_scale = nullptr;  // [slots] of this KV head; kI8 only: value = scale * q
  const float* v_scale = nullptr;
  const int32_t* slots = nullptr;  // slots of the block's positions
  int32_t first_position = 0;      // of the block, a multiple of 64
  int32_t positions = 0;           // 1..64 that may be read
  // Keys that the caller will want next (a hint, may be null): fetched while this block computes.
  const void* next_k = nullptr;
  const int32_t* next_slots = nullptr;
  int32_t next_positions = 0;
  int32_t queries = 0;
  const float* const* q = nullptr;           // [queries] -> head_dim floats
  const int32_t* query_positions = nullptr;  // [queries]
  float* const* partial = nullptr;           // [queries] -> PartialFloats, written (see below)
  float* scratch = nullptr;                  // AttentionScratchFloats(shape) floats
};

// A partial softmax over one block: [0, PaddedHeadDim) unnormalised sum of values, then the maximum
// score (-inf if the query sees nothing there), then the sum of weights.
constexpr int64_t PartialFloats(int64_t head_dim) { return PaddedHeadDim(head_dim) + 2; }
constexpr int64_t kAttentionQueries = 64;  // most queries of one AttentionBlock call
constexpr int64_t AttentionScratchFloats(int64_t head_dim) {
  return kAttentionBlock * (2 * PaddedHeadDim(head_dim) + kAttentionQueries) + 192;
}

// How logits x become a softmax's exponents: (x - max) / temperature. Nothing of x exceeds max.
struct SoftmaxScale {
  float max = 0;
  float temperature = 1;  // > 0
};
constexpr int64_t kProbeInt8 = 8 * 32;  // multiply-adds of a round for each of nr lanes
constexpr int64_t kProbeF32 = 12 * 32;
constexpr int64_t kSumBlock = 256;  // weights that SoftmaxWeights adds up together

struct Kernels {
  const char* name;
  int32_t nr;  // output features of a tile of packed weights

  // out[k / 32] = x[k] as int8 per 32: scale = absmax / 127, round to nearest even. k % 32 == 0.
  void (*quantize)(const float* x, int64_t k, QBlock* out);

  // The same around the middle of each block's range: x = scale * q + middles[k / 32], and scaled_sum
  // is the sum of all of x. Finer where a block's largest values have one sign (a third of the
  // squared error is typical after a norm), for a multiply-add per block and feature in matmul.
  void (*quantize_centered)(const float* x, int64_t k, QBlock* out, float* middles);

  // Rows [row_begin, row_end) of x times tiles [tile_begin, tile_end) of w.
  void (*matmul)(const MatmulArgs& args, int64_t row_begin, int64_t row_end, int64_t tile_begin,
                 int64_t tile_end);

  // out[k] = x * weight / sqrt(mean(x^2) + eps). out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t k, float* out);

  // acc[k] += y[k] * factor. acc may not be y.
  void (*add_scaled)(const float* y, float factor, int64_t k, float* acc);

  // out[k] = act(gate) * up, k any. out may be gate or up.
  void (*glu)(const float* gate, const float* up, Gate kind, int64_t k, float* out);

  // Rotates `heads` vectors of head_dim floats that lie end to end at x, in place.
  void (*rope)(float* x, int32_t heads, int32_t head_dim, int32_t position, const RopeArgs& args);

  // out[count] = x in the given storage type, not kI8.
  void (*store_as)(const float* x, int64_t count, DType type, void* out);

  // out[count] = x / scale to nearest even, with one scale = absmax / 127 (NaN if x holds one).
  void (*store_i8)(const float* x, int64_t count, int8_t* out, float* scale);

  // Partial softmax of queries x one block.
  void (*attention_block)(const AttentionBlockArgs& args);

  // Merges a block's partial into a running one (same layout); a running maximum of -inf is empty.
  void (*attention_merge)(const float* partial, int64_t head_dim, float* running);

  // out[head_dim] = values / sum of weights (0 if the query saw nothing).
  void (*attention_finish)(const float* running, int64_t head_dim, float* out);

  // Largest value and its index (the lowest of equals) among x[count], count >= 1; NaN is skipped.
  int64_t (*argmax)(const float* x, int64_t count, float* max);

  // True if any of x[count] exceeds threshold.
  bool (*any_greater)(const float* x, int64_t count, float threshold);

  // x = cap * tanh(x / cap), in place.
  void (*softcap)(float* x, int64_t count, float cap);

  bool (*has_nan)(const float* x, int64_t count);

  // weights[count] = exp of the exponents, 0 for those below -87; sums[ceil(count / kSumBlock)] =
  // their sums, one a block. Returns the sum of all.
  double (*softmax_weights)(const float* x, int64_t count, SoftmaxScale scale, float* weights,
                            double* sums);

  // For every exponent > `above` a key, in order of i: the bits of -exponent, then i (32 bits
  // each). Ascending keys are falling exponents, equals by rising i. Returns how many; keys has
  // room for `count` + 1 <= 2^32.
  int64_t (*rank_keys)(const float* x, int64_t count, SoftmaxScale scale, float above,
                       uint64_t* keys);

  // The units' own speed, for comparison: `rounds` times kProbe... multiply-adds a lane, of int8
  // dots or of floats, on operands in registers and the nearest cache. Returns what they add up to.
  float (*probe_int8)(int64_t rounds);
  float (*probe_f32)(int64_t rounds);
};

// Best table that this CPU and this build have.
const Kernels& BestKernels();

// Table by name ("avx512", "avx2", "neon", "portable"); null if not built or not supported here.
const Kernels* FindKernels(const char* name);

}  // namespace sgl
