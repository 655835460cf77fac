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

}  // namespace

void Team::Barrier() {
  if (size_ == 1) return;
  ThreadPool& p = *pool_;
  const uint32_t phase = p.phase_.load(std::memory_order_relaxed);
  if (p.arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size_)) {
    p.arrived_.store(0, std::memory_order_relaxed);
    p.next_.store(0, std::memory_order_relaxed);
    p.phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; p.phase_.load(std::memory_order_acquire) == phase; ++spins) {
    if (spins < kSpinsBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

int64_t Team::Next(int64_t grain) {
  return pool_->next_.fetch_add(grain, std::memory_order_relaxed);
}

ThreadPool::ThreadPool(int threads, int spin_us)
    : size_(threads < 1 ? 1 : threads), spin_us_(spin_us) {
  for (int rank = 1; rank < size_; ++rank) workers_.emplace_back([this, rank] { Work(rank); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(sleep_mutex_);
    stop_.store(true);
    job_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::RunErased(Erased fn, void* body) {
  std::lock_guard<std::mutex> run(run_mutex_);
  Team team(this, 0, size_);
  if (size_ > 1) {
    {
      std::lock_guard<std::mutex> lock(sleep_mutex_);
      fn_ = fn;
      body_ = body;
      job_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
  }
  fn(team, body);
  team.Barrier();
}

uint32_t ThreadPool::AwaitJob(uint32_t seen) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::microseconds(spin_us_);
  do {
    for (int i = 0; i < 64; ++i) {
      const uint32_t job = job_.load(std::memory_order_acquire);
      if (job != seen) return job;
      Pause();
    }
  } while (Clock::now() < deadline);
  std::unique_lock<std::mutex> lock(sleep_mutex_);
  wake_.wait(lock, [&] { return job_.load(std::memory_order_acquire) != seen; });
  return job_.load(std::memory_order_acquire);
}

void ThreadPool::Work(int rank) {
  Team team(this, rank, size_);
  for (uint32_t seen = 0;;) {
    seen = AwaitJob(seen);
    if (stop_.load()) return;
    fn_(team, body_);
    team.Barrier();
  }
}

}  // namespace sgl
