#include "sgl/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace sgl {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kPage = int64_t{64} << 10;  // a multiple of every system's

}  // namespace

PageBlock::PageBlock(int64_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
  // Room to start at a huge page's border; the ends are given back.
  const int64_t room = bytes_ + kHugePage;
  void* p = mmap(nullptr, static_cast<size_t>(room), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  auto* start = static_cast<uint8_t*>(p);
  const auto address = reinterpret_cast<uintptr_t>(start);
  const int64_t skip = (kHugePage - static_cast<int64_t>(address % kHugePage)) % kHugePage;
  if (skip > 0) munmap(start, static_cast<size_t>(skip));
  munmap(start + skip + bytes_, static_cast<size_t>(room - skip - bytes_));
  data_ = start + skip;
#if defined(MADV_HUGEPAGE)
  // A wish: failure costs only speed. Only whole ones: a started one would take memory for nothing.
  madvise(data_, static_cast<size_t>(bytes_ / kHugePage * kHugePage), MADV_HUGEPAGE);
#endif
}

PageBlock::~PageBlock() {
  if (bytes_ > 0) munmap(data_, static_cast<size_t>(bytes_));
}

uint8_t* WeightArena::Take(int64_t bytes) {
  const int64_t rounded = (bytes + 63) / 64 * 64;
  if (rounded > left_) {
    blocks_.push_back(std::make_unique<PageBlock>(std::max(rounded, block_bytes_)));
    next_ = blocks_.back()->data();
    left_ = blocks_.back()->bytes();
  }
  uint8_t* piece = next_;
  next_ += rounded;
  left_ -= rounded;
  used_ += rounded;
  return piece;
}

}  // namespace sgl
