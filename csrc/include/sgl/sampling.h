// From logits to tokens: softmax, top-k, top-p, min-p and the draw, with logprobs.
//
// Every row is computed alone, by one thread, in a fixed order: its token and logprobs don't depend
// on the batch. A draw is a function of the row and its uniform number.
#pragma once

#include <cstdint>
#include <memory>

#include "sgl/kernels.h"
#include "sgl/threads.h"

namespace sgl {

// One call: `rows` rows of logits [vocab], `stride` floats apart; arrays hold one entry a row.
struct SampleArgs {
  int64_t rows = 0;
  const float* logits = nullptr;
  int64_t stride = 0;

  // A row is greedy (argmax, lowest id of equals) if top_k is 1 or temperature is not above 0.
  const float* temperature = nullptr;
  const int64_t* top_k = nullptr;       // below 1 or above vocab: all
  const double* top_p = nullptr;        // 1 or more: off
  const double* min_p = nullptr;        // 0 or less: off
  const double* uniform = nullptr;      // in (0, 1)
  const int64_t* top_counts = nullptr;  // best tokens wanted; < 0: no logprobs at all; null: as -1
  int64_t top_width = 0;                // columns of top_ids and top_values, >= all top_counts

  int64_t* tokens = nullptr;
  // Rows with NaN, or without a finite maximum. Their values that are no finite numbers count as
  // -1e5, and the token is the argmax.
  bool* broken = nullptr;
  // Logprobs are those of the softmax that was drawn from: divided by the temperature, before
  // filters. Greedy rows: temperature 1. Rows without logprobs: 0.
  double* logprobs = nullptr;
  int64_t* top_ids = nullptr;    // [rows, top_width] falling, equals by rising id; the rest is -1
  double* top_values = nullptr;  // [rows, top_width]
  double* max = nullptr;         // of the row; logprob of any token i is
  double* log_total = nullptr;   // (logits[i] - max) / temperature - log_total
};

// Holds scratch memory of its threads. One Sample at a time.
class Sampler {
 public:
  Sampler(const Kernels& kernels, int64_t vocab);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  int64_t vocab() const { return vocab_; }

  // Logits are read only.
  void Sample(ThreadPool& pool, const SampleArgs& args);

 private:
  struct Scratch;
  class Row;

  const Kernels& kernels_;
  const int64_t vocab_;
  int threads_ = 0;
  std::unique_ptr<Scratch[]> scratch_;  // per thread
};

}  // namespace sgl
