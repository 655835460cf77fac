// A persistent team of threads: one parallel region a step, barriers and shared loops inside.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace sgl {

class ThreadPool;

// A thread's view of the team it runs in. All threads of the team must make the same sequence of
// Barrier() and For() calls.
class Team {
 public:
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Waits for all threads of the team. Writes before it are visible to all after it.
  void Barrier();

  // Calls body(begin, end) so that every index of [0, count) is covered once, in pieces of at most
  // `grain`, handed out first come first served. Ends with a barrier. Which thread gets which piece
  // is not fixed: the result of a piece must not depend on it.
  template <class Body>
  void For(int64_t count, int64_t grain, Body&& body) {
    if (size_ == 1) {
      if (count > 0) body(int64_t{0}, count);
      return;
    }
    for (int64_t begin = Next(grain); begin < count; begin = Next(grain)) {
      body(begin, begin + grain < count ? begin + grain : count);
    }
    Barrier();
  }

 private:
  friend class ThreadPool;
  Team(ThreadPool* pool, int rank, int size) : pool_(pool), rank_(rank), size_(size) {}
  int64_t Next(int64_t grain);

  ThreadPool* pool_;
  int rank_;
  int size_;
};

// Owns size - 1 threads; the caller of Run is rank 0. Workers spin for a short while after a region
// and then sleep. One Run at a time: calls from several threads are serialised.
class ThreadPool {
 public:
  // threads >= 1. `spin_us`: how long idle workers spin before they sleep.
  explicit ThreadPool(int threads, int spin_us = 50);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Calls body(Team&) once on every thread and returns when all have returned. The body must not
  // throw and must not call Run.
  template <class Body>
  void Run(Body&& body) {
    RunErased([](Team& team, void* b) { (*static_cast<std::remove_reference_t<Body>*>(b))(team); },
              const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  friend class Team;
  using Erased = void (*)(Team&, void*);
  void RunErased(Erased fn, void* body);
  void Work(int rank);
  uint32_t AwaitJob(uint32_t seen);

  const int size_;
  const int spin_us_;
  std::mutex run_mutex_;
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  Erased fn_ = nullptr;
  void* body_ = nullptr;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
  // Each on its own cache line: every thread hammers them.
  alignas(64) std::atomic<uint32_t> job_{0};
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  alignas(64) std::atomic<int64_t> next_{0};
};

}  // namespace sgl
