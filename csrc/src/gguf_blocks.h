// Reads GGUF blocks into plain integers, scales and minimums.
#pragma once

#include <cstdint>
#include <vector>

#include "sgl/tensor.h"

namespace sgl {

// One row: value[i] = scale[i / group] * (q[i] - zero) + min[i / group], as SpecOf(format) says.
// q is unsigned (Q8_0: stored value + 128).
struct GroupedRow {
  std::vector<uint8_t> q;
  std::vector<float> scale;
  std::vector<float> min;
};

int64_t BlockValues(GgufType type);
int64_t BlockBytes(GgufType type);

// Reads k values (whole blocks) of a quantised type. Resizes the vectors as needed.
void ReadGroupedRow(GgufType type, const uint8_t* row, int64_t k, GroupedRow& out);

}  // namespace sgl
