// A decoder's forward pass, recorded once as a list of operations and replayed each step in one
// call.
//
// Recording: Add* throws std::invalid_argument where operands don't fit each other; it appends
// operations on numbered buffers ([max_tokens, width] floats, or int8 blocks of 32). Weights and KV
// pools are pointers that must outlive the program. Replaying: Run() computes a step with all
// threads of a pool; one Run at a time. Batch invariance: every token's results have the same bits
// whatever else is in the step, however many threads there are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sgl/attention_plan.h"
#include "sgl/kernels.h"
#include "sgl/pack.h"
#include "sgl/threads.h"

namespace sgl {

// Inputs and outputs of one step. Pointers stay the caller's; outputs may be null where noted.
struct Step {
  int64_t tokens = 0;
  const int64_t* input_ids = nullptr;  // [tokens]
  const int64_t* positions = nullptr;  // [tokens]
  const int64_t* out_slots = nullptr;  // [tokens] KV slot each token is written to
  AttentionRows rows;

  int64_t outputs = 0;                     // tokens whose logits are wanted
  const int64_t* output_tokens = nullptr;  // [outputs] indices of tokens in this step
  int64_t full_rows = 0;                   // the first full_rows outputs get all logits
  float* logits = nullptr;                 // [full_rows, vocab]
  int64_t* best_ids = nullptr;             // [outputs] argmax, lowest id of equals; may be null
  float* best_values = nullptr;            // [outputs]; null with best_ids
  int64_t top_k = 0;                       // candidates per output, 0 = none
  int64_t* top_ids = nullptr;              // [outputs, top_k] descending by value, then lowest id
  float* top_values = nullptr;             // [outputs, top_k]
  // [outputs] or null: what argmax and candidates may be, as in masking.h; null entries allow all.
  // The first full_rows are not masked.
  const int32_t* const* masks = nullptr;
  int64_t mask_words = 0;
  float* hidden = nullptr;                 // [outputs, hidden] after the final norm; may be null
};

// Buffer handles. kNone where an operand is left out.
using BufferId = int32_t;
constexpr BufferId kNone = -1;

// The same values as floats, as int8 blocks, or both: each weight takes the form it needs.
struct Activations {
  BufferId floats = kNone;
  BufferId blocks = kNone;
};

struct LinearPart {
  PackedWeight weight;
  const float* bias = nullptr;  // [n] or null
  int64_t column = 0;           // first column of the output buffer
};

struct NormSpec {
  const float* weight = nullptr;  // [width]
  float eps = 1e-6f;
};

struct KvPool {
  // [kv_heads, slots, PaddedHeadDim] of kv_type, zeros behind head_dim.
  void* k = nullptr;
  void* v = nullptr;
  float* k_scale = nullptr;  // [kv_heads, slots], kI8 only
  float* v_scale = nullptr;
  int64_t slots = 0;
};

class Program {
 public:
  Program(const Kernels& kernels, int64_t max_tokens, int64_t vocab);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  BufferId AddFloats(int64_t width);
  // width % 32 == 0. Centred blocks round around the middle of their range: two to three times less
  // error where activations lean to one side, for one more multiply-add a block, column and row.
  BufferId AddBlocks(int64_t width, bool centered = false);

  // out = table[id] * scale. The table is packed; or raw GGUF rows when `rows` is given.
  void AddEmbedding(const PackedWeight& table, float scale, BufferId out);
  void AddGgufEmbedding(GgufType type, const void* rows, int64_t width, float scale, BufferId out);

  // If addend is given: x += addend (normalised first if addend_norm.weight is set), in place.
  // Then out = rms_norm(x) in the forms wanted.
  void AddNorm(BufferId x, BufferId addend, NormSpec addend_norm, NormSpec norm, Activations out);

  // out[:, column ..] (+)= in * weight^T + bias for every part.
  void AddLinear(Activations in, std::vector<LinearPart> parts, BufferId out, bool accumulate);

  // out = act(in * gate^T + gate bias) * (in * up^T + up bias). gate and up have the same n (% 32
  // == 0 for blocks); their columns are not looked at.
  void AddGatedLinear(Activations in, const LinearPart& gate, const LinearPart& up, Gate kind,
                      Activations out);

  // qkv holds [heads + 2 * kv_heads, head_dim] a token. Normalises q and k heads (if weights are
  // set), rotates them (if rope.cos is set) and stores k and v at the tokens' slots. q in place.
  void AddRopeStore(BufferId qkv, const AttentionShape& shape, NormSpec q_norm, NormSpec k_norm,
                    const RopeArgs& rope, const KvPool& pool);

  // out[:, heads * head_dim] = attention of qkv's queries over the pool. out.floats is needed.
  void AddAttention(BufferId qkv, const AttentionShape& shape, const KvPool& pool, Activations out);

  // Final norm of the output tokens, then logits. softcap 0 = off.
  void AddHead(BufferId x, NormSpec norm, const PackedWeight& weight, float softcap);

  // Measures from the next Run on: seconds of each operation, summed over runs, in order of
  // recording, as the calling thread sees them (when it comes late, the others have done the work:
  // only sums over many runs mean something). Clears what was measured before.
  void Profile(bool on);
  std::vector<std::pair<std::string, double>> Times() const;

  // Floats or values that a buffer holds for a token.
  int64_t Width(BufferId id) const;

  // A buffer's memory between runs, to test and measure operations by themselves: floats
  // [max_tokens, width] or QBlocks [max_tokens, width / 32]; null if it holds the other kind.
  float* Floats(BufferId id);
  QBlock* Blocks(BufferId id);

  // Replays. Returns an empty string, or what is wrong with the step (nothing was computed then):
  // every id, position and slot in use is checked.
  std::string Run(ThreadPool& pool, const Step& step);

  int64_t max_tokens() const { return max_tokens_; }

  // Of the implementation (program_state.h).
  struct Op;
  struct State;

 private:
  std::string Check(const Step& step) const;
  void RunOps(Team& team, bool timed) const;

  const Kernels& kernels_;
  const int64_t max_tokens_;
  const int64_t vocab_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::unique_ptr<State> state_;
};

}  // namespace sgl
