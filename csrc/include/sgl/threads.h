// A persistent team of threads: one parallel region a step, shared loops inside.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace sgl {

class ThreadPool;

// A thread's view of the team it runs in. All threads make the same sequence of For() calls.
// The grain of a loop of `count` equal parts over `bytes` of weights that meet `rows` rows: as many
// pieces for each thread, and few, because a stream from memory takes a while to get up to speed.
// Work that takes long is cut finer, so that a thread whose core is slower gets less of it.
inline int64_t StreamGrain(int64_t count, int64_t bytes, int64_t rows, int threads) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  const int64_t work = bytes * (rows < 4 ? 1 : rows / 4);
  int64_t pieces = work / (threads * kPieceBytes);
  if (pieces < 1) pieces = 1;
  return (count + threads * pieces - 1) / (threads * pieces);
}

class Team {
 public:
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Calls body(begin, end) so that every index of [0, count) is covered once, and returns when all
  // of them are done; writes of the bodies are then visible. Pieces are handed out first come first
  // served, large ones first, none below `grain` (but the last). Which thread gets which piece is
  // not fixed: the result of a piece must not depend on it.
  //
  // A thread that comes late (the system may have taken its core away) finds the loop finished and
  // walks on: the others never wait for it unless it holds a piece. count < 2^31.
  template <class Body>
  void For(int64_t count, int64_t grain, Body&& body) {
    For(count, grain, body, [] {});
  }

  // The same; then (count > 0) whoever finishes last calls tail(), before anybody returns: a little
  // work for one thread without another meeting of all of them.
  template <class Body, class Tail>
  void For(int64_t count, int64_t grain, Body&& body, Tail&& tail) {
    if (count <= 0) return;
    if (size_ == 1) {
      body(int64_t{0}, count);
      tail();
      return;
    }
    ++loop_;
    int64_t begin;
    int64_t end;
    int64_t done = 0;
    while (NextPiece(count, grain, &begin, &end)) {
      body(begin, end);
      done += end - begin;
    }
    if (IsLast(count, done)) {
      tail();
      EndLoop();
    } else {
      AwaitEnd();
    }
  }

 private:
  friend class ThreadPool;
  Team(ThreadPool* pool, int rank, int size) : pool_(pool), rank_(rank), size_(size) {}
  bool NextPiece(int64_t count, int64_t grain, int64_t* begin, int64_t* end);
  bool IsLast(int64_t count, int64_t done);
  void EndLoop();
  void AwaitEnd();

  ThreadPool* pool_;
  int rank_;
  int size_;
  uint32_t loop_ = 0;  // number of the loop this thread is in
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

  // Calls body(Team&) on this thread and, once each, on those workers that wake before it returns.
  // Only work inside Team::For is shared out. The body must not throw and must not call Run.
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
  uint32_t first_loop_ = 0;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
  // Each on its own cache line: every thread hammers them.
  alignas(64) std::atomic<uint32_t> job_{0};     // odd while a region is open to workers
  alignas(64) std::atomic<int> inside_{0};       // workers in the region
  alignas(64) std::atomic<uint64_t> ticket_{0};  // running loop << 32 | next index
  alignas(64) std::atomic<int64_t> done_{0};     // indices finished in the running loop
};

}  // namespace sgl
