#include "sgl/threads.h"

#include <chrono>

namespace sgl {
namespace {

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins this many times before giving the core away: on a busy machine the thread we wait for may
// need the very core we spin on.
constexpr int kSpinsBeforeYield = 4000;

inline uint32_t LoopOf(uint64_t ticket) { return static_cast<uint32_t>(ticket >> 32); }

template <class Ready>
void SpinUntil(Ready ready) {
  for (int spins = 0; !ready(); ++spins) {
    if (spins < kSpinsBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

bool Team::NextPiece(int64_t count, int64_t grain, int64_t* begin, int64_t* end) {
  std::atomic<uint64_t>& ticket = pool_->ticket_;
  uint64_t seen = ticket.load(std::memory_order_acquire);
  while (LoopOf(seen) == loop_) {
    const int64_t at = static_cast<uint32_t>(seen);
    if (at >= count) return false;
    // A fair share of half of what is left.
    int64_t size = (count - at) / (2 * int64_t{size_});
    if (size < grain) size = grain;
    if (size > count - at) size = count - at;
    if (ticket.compare_exchange_weak(seen, seen + static_cast<uint64_t>(size),
                                     std::memory_order_acq_rel, std::memory_order_acquire)) {
      *begin = at;
      *end = at + size;
      return true;
    }
  }
  return false;  // the others are past this loop already
}

// Whether the `done` indices of this thread were the last that anybody had to finish.
bool Team::IsLast(int64_t count, int64_t done) {
  return done > 0 && pool_->done_.fetch_add(done, std::memory_order_acq_rel) + done == count;
}

void Team::EndLoop() {
  pool_->done_.store(0, std::memory_order_relaxed);
  pool_->ticket_.store(static_cast<uint64_t>(loop_ + 1) << 32, std::memory_order_release);
}

void Team::AwaitEnd() {
  SpinUntil([&] { return LoopOf(pool_->ticket_.load(std::memory_order_acquire)) != loop_; });
}

ThreadPool::ThreadPool(int threads, int spin_us)
    : size_(threads < 1 ? 1 : threads), spin_us_(spin_us) {
  for (int rank = 1; rank < size_; ++rank) workers_.emplace_back([this, rank] { Work(rank); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(sleep_mutex_);
    stop_.store(true);
    job_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::RunErased(Erased fn, void* body) {
  std::lock_guard<std::mutex> run(run_mutex_);
  Team team(this, 0, size_);
  if (size_ == 1) {
    fn(team, body);
    return;
  }
  first_loop_ = LoopOf(ticket_.load(std::memory_order_relaxed));
  fn_ = fn;
  body_ = body;
  {
    std::lock_guard<std::mutex> lock(sleep_mutex_);
    job_.fetch_add(1);  // opens the region
  }
  wake_.notify_all();
  team.loop_ = first_loop_ - 1;
  fn(team, body);
  job_.fetch_add(1);  // closes it: who is not inside now stays out
  SpinUntil([&] { return inside_.load() == 0; });
}

// Returns the number of an open region other than `seen`.
uint32_t ThreadPool::AwaitJob(uint32_t seen) {
  using Clock = std::chrono::steady_clock;
  const auto open = [&] {
    const uint32_t job = job_.load(std::memory_order_acquire);
    return stop_.load(std::memory_order_relaxed) || (job % 2 == 1 && job != seen);
  };
  const auto deadline = Clock::now() + std::chrono::microseconds(spin_us_);
  do {
    for (int i = 0; i < 64; ++i) {
      if (open()) return job_.load();
      Pause();
    }
  } while (Clock::now() < deadline);
  std::unique_lock<std::mutex> lock(sleep_mutex_);
  wake_.wait(lock, open);
  return job_.load();
}

void ThreadPool::Work(int rank) {
  for (uint32_t seen = 0;;) {
    seen = AwaitJob(seen);
    if (stop_.load()) return;
    inside_.fetch_add(1);
    // The region may have closed, or a new one opened, since it was seen.
    if (seen % 2 == 1 && job_.load() == seen) {
      Team team(this, rank, size_);
      team.loop_ = first_loop_ - 1;
      fn_(team, body_);
    }
    inside_.fetch_sub(1);
  }
}

}  // namespace sgl
