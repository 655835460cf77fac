#include "sgl/threads.h"

#include "check.h"

namespace sgl {
namespace {

void EveryIndexOnce(int threads) {
  ThreadPool pool(threads);
  for (int64_t count : {0, 1, 2, 7, 100, 1001}) {
    for (int64_t grain : {1, 3, 64}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      std::atomic<int> entered{0};
      pool.Run([&](Team& team) {
        entered.fetch_add(1);
        for (int repeat = 0; repeat < 3; ++repeat) {
          team.For(count, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)].fetch_add(1);
          });
        }
      });
      CHECK(entered.load() == threads);
      for (auto& h : hits) CHECK(h.load() == 3);
    }
  }
}

// A value written before a barrier is read after it by everyone, thousands of times over.
void BarriersOrderMemory(int threads) {
  ThreadPool pool(threads, 0);
  std::vector<int> cell(static_cast<size_t>(threads));
  std::atomic<int> wrong{0};
  pool.Run([&](Team& team) {
    for (int step = 1; step <= 2000; ++step) {
      cell[static_cast<size_t>(team.rank())] = step;
      team.Barrier();
      for (int value : cell) wrong.fetch_add(value != step);
      team.Barrier();
    }
  });
  CHECK(wrong.load() == 0);
}

void ManyRegionsWithSleepsBetween() {
  ThreadPool pool(2, 0);
  std::atomic<int> sum{0};
  for (int i = 0; i < 2000; ++i) {
    pool.Run([&](Team& team) { sum.fetch_add(team.rank() + 1); });
  }
  CHECK(sum.load() == 2000 * 3);
}

}  // namespace
}  // namespace sgl

int main() {
  for (int threads : {1, 2, 3}) {
    sgl::EveryIndexOnce(threads);
    sgl::BarriersOrderMemory(threads);
  }
  sgl::ManyRegionsWithSleepsBetween();
}
