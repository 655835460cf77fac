// Grammar masks on logits.
#pragma once

#include <cstdint>

#include "sgl/threads.h"

namespace sgl {

// Sets the logits of forbidden tokens to -inf. Row `rows[i]` of logits [*, vocab], `stride` floats
// apart, has the mask `masks[i]`: `words` words, bit b of word w allows token 32 * w + b. Tokens
// beyond the mask are forbidden.
void MaskLogits(ThreadPool& pool, float* logits, int64_t stride, int64_t vocab, const int64_t* rows,
                const int32_t* const* masks, int64_t words, int64_t count);

// One row, or a piece of it from token `first` on, a multiple of 32: x[count] are its logits.
void MaskPiece(float* x, int64_t first, int64_t count, const int32_t* mask, int64_t words);

// Whether tokens [first, first + count) are all forbidden; first is a multiple of 32. Says no where
// a bit past the range in its last word allows a token.
bool ForbidsPiece(int64_t first, int64_t count, const int32_t* mask, int64_t words);

}  // namespace sgl
