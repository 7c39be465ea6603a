#include "binade/base/work_stealing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "binade/base/error.h"
#include "support/thread_count.h"

namespace binade {
namespace {

TEST(WorkQueues, OneWorkerTakesAllStartingWithItsOwn) {
  WorkQueues queues(3, 7);  // ranges 0-1, 2-3, 4-6
  std::vector<int64_t> taken;
  queues.run(1, [&](int64_t item) { taken.push_back(item); });
  EXPECT_EQ(taken, (std::vector<int64_t>{2, 3, 4, 5, 6, 0, 1}));
  queues.run(0, [&](int64_t item) { ADD_FAILURE() << item << " was taken twice"; });
  queues.wait();
}

TEST(WorkQueues, FewerItemsThanWorkersOrNone) {
  WorkQueues few(8, 2);
  int64_t sum = 0;
  few.run(5, [&](int64_t item) { sum += item + 1; });
  few.wait();
  EXPECT_EQ(sum, 3);
  WorkQueues none(8, 0);
  none.run(0, [](int64_t) { FAIL(); });
  none.wait();
}

TEST(WorkQueues, AnItemThatThrowsCountsAsDone) {
  WorkQueues queues(1, 3);
  EXPECT_THROW(queues.run(0, [](int64_t) { fail("body", {.argument = "item"}); }), Error);
  int rest = 0;
  queues.run(0, [&](int64_t) { ++rest; });
  EXPECT_EQ(rest, 2);
  queues.wait();
}

class TwoPhases : public testing::TestWithParam<int> {
  ThreadCount threads_{GetParam()};
};

TEST_P(TwoPhases, RunEveryItemOnceAndTheSecondPhaseAfterTheFirst) {
  for (int round = 0; round < 200; ++round) {
    for (const int64_t workers : {1, 3, 8, 20}) {
      std::vector<std::atomic<int>> first(37), second(5);
      std::atomic<int64_t> done = 0;
      run_two_phases(
          workers, 37,
          [&](int64_t item) {
            ++first[static_cast<size_t>(item)];
            ++done;
          },
          5,
          [&](int64_t item) {
            EXPECT_EQ(done, 37);
            ++second[static_cast<size_t>(item)];
          });
      for (const auto& count : first) ASSERT_EQ(count, 1);
      for (const auto& count : second) ASSERT_EQ(count, 1);
    }
  }
}

TEST_P(TwoPhases, RethrowWhatAnItemThrows) {
  for (const int64_t bad : {0, 17, 36}) {
    EXPECT_THROW(run_two_phases(
                     8, 37,
                     [&](int64_t item) {
                       if (item == bad) fail("body", {.argument = "item"});
                     },
                     5, [](int64_t) {}),
                 Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, TwoPhases, testing::Values(1, 2, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace binade
