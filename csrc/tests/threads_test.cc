#include "sgl/threads.h"

#include <chrono>

#include "check.h"

namespace sgl {
namespace {

void EveryIndexOnce(int threads) {
  ThreadPool pool(threads);
  for (int64_t count : {0, 1, 2, 7, 100, 1001}) {
    for (int64_t grain : {1, 3, 64}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      pool.Run([&](Team& team) {
        for (int repeat = 0; repeat < 3; ++repeat) {
          team.For(count, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)].fetch_add(1);
          });
        }
      });
      for (auto& h : hits) CHECK(h.load() == 3);
    }
  }
}

// What one loop writes, the next one reads, whoever does it, thousands of times over.
void LoopsFollowOneAnother(int threads) {
  ThreadPool pool(threads, 0);
  std::vector<int> a(64);
  std::vector<int> b(64);
  std::atomic<int> wrong{0};
  pool.Run([&](Team& team) {
    for (int step = 1; step <= 3000; ++step) {
      std::vector<int>& from = step % 2 ? a : b;
      std::vector<int>& to = step % 2 ? b : a;
      team.For(64, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          // Every index depends on one that another thread may have written.
          const int left = from[static_cast<size_t>((i + 33) % 64)];
          wrong.fetch_add(left != step - 1);
          to[static_cast<size_t>(i)] = step;
        }
      });
    }
  });
  CHECK(wrong.load() == 0);
}

// The tail sees all that the loop wrote, once, and the loop after it sees the tail.
void TailsComeBetween(int threads) {
  ThreadPool pool(threads, 0);
  std::vector<int> values(13);
  int sum = 0;
  std::atomic<int> wrong{0};
  pool.Run([&](Team& team) {
    for (int step = 1; step <= 2000; ++step) {
      team.For(
          13, 1,
          [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] = step;
            wrong.fetch_add(sum != 13 * (step - 1) * step / 2);
          },
          [&] {
            for (int value : values) sum += value;
          });
    }
  });
  CHECK(wrong.load() == 0);
  CHECK(sum == 13 * 2000 * 2001 / 2);
}

// A thread that sleeps through loops finds them done and catches up.
void LateThreadsCatchUp() {
  ThreadPool pool(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> sum{0};
    pool.Run([&](Team& team) {
      if (team.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (int loop = 0; loop < 50; ++loop) {
        team.For(10, 1,
                 [&](int64_t begin, int64_t end) { sum.fetch_add(static_cast<int>(end - begin)); });
      }
    });
    CHECK(sum.load() == 500);
  }
}

void ManyRegionsWithSleepsBetween() {
  ThreadPool pool(2, 0);
  std::atomic<int> sum{0};
  for (int i = 0; i < 3000; ++i) {
    pool.Run([&](Team& team) {
      team.For(3, 1,
               [&](int64_t begin, int64_t end) { sum.fetch_add(static_cast<int>(end - begin)); });
    });
  }
  CHECK(sum.load() == 9000);
}

}  // namespace
}  // namespace sgl

int main() {
  for (int threads : {1, 2, 3}) {
    sgl::EveryIndexOnce(threads);
    sgl::LoopsFollowOneAnother(threads);
    sgl::TailsComeBetween(threads);
  }
  sgl::LateThreadsCatchUp();
  sgl::ManyRegionsWithSleepsBetween();
}
