// Splits the attention of one step into tasks. Made once a step, used by every layer.
//
// Decode rows (one query) are cut at absolute block borders; rows whose slots agree on a whole
// block share one task there, so a common prefix is read once for all of them. Prefill rows become
// tiles of consecutive queries.
#pragma once

#include <cstdint>
#include <vector>

namespace sgl {

// The rows of a step, as the caller holds them. Nothing is copied or changed.
struct AttentionRows {
  int64_t rows = 0;
  const int64_t* query_lens = nullptr;  // [rows] >= 1
  const int64_t* seq_lens = nullptr;    // [rows] >= query_lens, the new tokens included
  const int64_t* table_rows = nullptr;  // [rows] row in the slot table; null = row r is r
  const int32_t* slot_table = nullptr;  // [*, slot_stride]
  int64_t slot_stride = 0;

  const int32_t* Slots(int64_t row) const {
    return slot_table + (table_rows == nullptr ? row : table_rows[row]) * slot_stride;
  }
};

struct AttentionPlan {
  // A block seen by decode rows members[first .. first + count).
  struct Shared {
    int64_t block;
    int64_t positions;  // readable in the block
    int64_t first;
    int64_t count;
  };
  // Queries [begin, begin + count) of a prefill row.
  struct Tile {
    int64_t row;
    int64_t begin;
    int64_t count;
  };

  std::vector<Shared> shared;
  std::vector<int64_t> members;
  std::vector<Tile> tiles;
  std::vector<int64_t> first_token;  // [rows] first token of each row
  std::vector<int64_t>
      partial_base;                // [rows] decode: where the row's block partials start, else -1
  std::vector<int64_t> token_row;  // [tokens]
  int64_t partials = 0;            // block partials to keep, per query head

  // Refills the plan. `heads_per_kv`: query heads that share a KV head.
  void Build(const AttentionRows& rows, int heads_per_kv);

 private:
  void AddDecodeBlock(const AttentionRows& rows, int64_t block, int64_t max_members);
  std::vector<int64_t> live_;  // decode rows that reach the block at hand
  std::vector<int64_t> group_;
};

}  // namespace sgl
