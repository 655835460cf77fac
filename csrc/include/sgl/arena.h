// Memory for weights and KV pools: large, 64-byte aligned, on huge pages where the system has them
// (streaming 4 KiB pages costs a quarter of the read bandwidth in page walks).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace sgl {

// Zeroed memory; pages are taken from the system as they are first written.
class PageBlock {
 public:
  // Throws std::bad_alloc.
  explicit PageBlock(int64_t bytes);
  ~PageBlock();
  PageBlock(const PageBlock&) = delete;
  PageBlock& operator=(const PageBlock&) = delete;

  uint8_t* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  uint8_t* data_;
  int64_t bytes_;
};

// Hands out pieces of large blocks, end to end. Pieces live as long as the arena. Not thread-safe.
class WeightArena {
 public:
  explicit WeightArena(int64_t block_bytes = int64_t{64} << 20) : block_bytes_(block_bytes) {}
  WeightArena(const WeightArena&) = delete;
  WeightArena& operator=(const WeightArena&) = delete;

  // `bytes` of zeroed memory, 64-byte aligned.
  uint8_t* Take(int64_t bytes);

  int64_t used() const { return used_; }

 private:
  const int64_t block_bytes_;
  int64_t used_ = 0;
  int64_t left_ = 0;
  uint8_t* next_ = nullptr;
  std::vector<std::unique_ptr<PageBlock>> blocks_;
};

}  // namespace sgl
