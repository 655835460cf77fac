#include "sgl/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace sgl {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

}  // namespace

PageBlock::PageBlock(int64_t bytes) : bytes_((bytes + kHugePage - 1) / kHugePage * kHugePage) {
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
  madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);  // a wish: failure costs only speed
#endif
}

PageBlock::~PageBlock() { munmap(data_, static_cast<size_t>(bytes_)); }

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
