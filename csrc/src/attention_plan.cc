#include "sgl/attention_plan.h"

#include <algorithm>
#include <cstring>

#include "sgl/kernels.h"

namespace sgl {

void AttentionPlan::Build(const AttentionRows& rows, int heads_per_kv) {
  shared.clear();
  members.clear();
  tiles.clear();
  first_token.clear();
  partial_base.assign(static_cast<size_t>(rows.rows), -1);
  token_row.clear();
  partials = 0;
  const int64_t max_queries = std::max<int64_t>(1, kAttentionQueries / heads_per_kv);
  int64_t most_blocks = 0;
  for (int64_t r = 0; r < rows.rows; ++r) {
    first_token.push_back(static_cast<int64_t>(token_row.size()));
    token_row.insert(token_row.end(), static_cast<size_t>(rows.query_lens[r]), r);
    if (rows.query_lens[r] == 1) {
      const int64_t blocks = (rows.seq_lens[r] + kAttentionBlock - 1) / kAttentionBlock;
      partial_base[static_cast<size_t>(r)] = partials;
      partials += blocks;
      most_blocks = std::max(most_blocks, blocks);
      continue;
    }
    // Last queries first: they see the most, and long tasks should start early.
    for (int64_t end = rows.query_lens[r]; end > 0; end -= max_queries) {
      const int64_t begin = std::max<int64_t>(0, end - max_queries);
      tiles.push_back({r, begin, end - begin});
    }
  }
  for (int64_t block = 0; block < most_blocks; ++block) AddDecodeBlock(rows, block, max_queries);
}

// Groups the decode rows that reach `block` by their slots there.
void AttentionPlan::AddDecodeBlock(const AttentionRows& rows, int64_t block, int64_t max_members) {
  const int64_t start = block * kAttentionBlock;
  live_.clear();
  for (int64_t r = 0; r < rows.rows; ++r) {
    if (partial_base[static_cast<size_t>(r)] >= 0 && rows.seq_lens[r] > start) live_.push_back(r);
  }
  while (!live_.empty()) {
    const int64_t head = live_.front();
    const int32_t* slots = rows.Slots(head) + start;
    const int64_t positions = std::min(kAttentionBlock, rows.seq_lens[head] - start);
    group_.clear();
    size_t kept = 0;
    for (int64_t r : live_) {
      // Only whole blocks are shared: the last one of a row still grows.
      const bool same =
          r == head ||
          (positions == kAttentionBlock && rows.seq_lens[r] - start >= kAttentionBlock &&
           std::memcmp(rows.Slots(r) + start, slots, kAttentionBlock * sizeof(int32_t)) == 0);
      if (same) {
        group_.push_back(r);
      } else {
        live_[kept++] = r;
      }
    }
    live_.resize(kept);
    for (size_t i = 0; i < group_.size(); i += static_cast<size_t>(max_members)) {
      const size_t end = std::min(group_.size(), i + static_cast<size_t>(max_members));
      shared.push_back(
          {block, positions, static_cast<int64_t>(members.size()), static_cast<int64_t>(end - i)});
      members.insert(members.end(), group_.begin() + static_cast<int64_t>(i),
                     group_.begin() + static_cast<int64_t>(end));
    }
  }
}

}  // namespace sgl
