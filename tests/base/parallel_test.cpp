#include "binade/base/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "binade/base/error.h"
#include "support/thread_count.h"

namespace binade {
namespace {

class Parallel : public testing::TestWithParam<int> {
  ThreadCount threads_{GetParam()};
};

TEST_P(Parallel, RangesCoverEverythingOnce) {
  for (const int64_t n : {0, 1, 2, 7, 64, 1000, 4097}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(n));
      parallel_for(n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const auto& count : visits) ASSERT_EQ(count, 1) << n << " by " << grain;
    }
  }
}

TEST_P(Parallel, RangesStartAtMultiplesOfTheGrain) {
  std::mutex mutex;
  std::set<int64_t> starts;
  parallel_for(1003, 16, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(begin % 16, 0);
    EXPECT_TRUE(end % 16 == 0 || end == 1003);
    EXPECT_LT(begin, end);
    starts.insert(begin);
  });
  // Few enough ranges that per-range setup in a body is cheap.
  EXPECT_LE(static_cast<int>(starts.size()), GetParam() == 1 ? 1 : 4 * GetParam());
}

TEST_P(Parallel, EachThreadOnce) {
  for (const int64_t workers : {1, 2, 5}) {
    std::mutex mutex;
    std::set<int64_t> seen;
    on_each_thread(workers, [&](int64_t worker) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(seen.insert(worker).second);
    });
    EXPECT_TRUE(seen.contains(0));
    EXPECT_LE(*seen.rbegin(), std::min<int64_t>(workers, GetParam()) - 1);
  }
}

TEST_P(Parallel, AGrainBelowOneCountsAsOne) {
  std::atomic<int64_t> total = 0;
  parallel_for(10, 0, [&](int64_t begin, int64_t end) { total += end - begin; });
  parallel_for(10, -5, [&](int64_t begin, int64_t end) { total += end - begin; });
  parallel_for(-3, 1, [&](int64_t, int64_t) { total += 1000; });
  EXPECT_EQ(total, 20);
}

TEST_P(Parallel, RethrowsWhatABodyThrows) {
  for (int64_t bad = 0; bad < 64; bad += 9) {
    EXPECT_THROW(parallel_for(64, 1,
                              [&](int64_t begin, int64_t end) {
                                if (begin <= bad && bad < end) fail("body", {.argument = "index"});
                              }),
                 Error);
  }
  // And works afterwards.
  std::atomic<int64_t> total = 0;
  parallel_for(64, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
  EXPECT_EQ(total, 64);
}

TEST_P(Parallel, InsideABodyRunsSerially) {
  std::atomic<int64_t> total = 0;
  parallel_for(16, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int ranges = 0;
      parallel_for(100, 1, [&](int64_t first, int64_t last) {
        ++ranges;
        total += last - first;
      });
      // With one thread there is no parallel region, so the inner loop may use threads.
      if (GetParam() > 1) {
        EXPECT_EQ(ranges, 1);
      }
    }
  });
  EXPECT_EQ(total, 1600);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 3, 8),
                         testing::PrintToStringParamName());

int64_t sum_below(int64_t n) {
  std::atomic<int64_t> total = 0;
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) total += i;
  });
  return total;
}

// How a forked child that runs `body` ended; it is killed if it hangs.
int status_of_child(bool (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(Fork, AChildRunsItsLoops) {
  const ThreadCount threads(4);
  ASSERT_EQ(sum_below(1000), 499500);
  EXPECT_EQ(status_of_child([] { return sum_below(1000) == 499500; }), 0);
  EXPECT_EQ(status_of_child([] {
              int64_t sum = 0;
              std::thread([&sum] { sum = sum_below(1000); }).join();
              return sum == 499500;
            }),
            0)
      << "on a thread of its own, which has a team of its own";
  EXPECT_EQ(status_of_child([] {
              return status_of_child([] { return sum_below(1000) == 499500; }) == 0 &&
                     sum_below(1000) == 499500;
            }),
            0)
      << "and so does a grandchild";
  EXPECT_EQ(sum_below(1000), 499500);
}

// A user whose threads may be limited: root's are not.
constexpr uid_t limited_user = 54321;

bool can_be_limited() {
  return geteuid() != 0 || status_of_child([] { return setuid(limited_user) == 0; }) == 0;
}

void loop_with_few_threads(rlim_t limit) {
  if (geteuid() == 0 && setuid(limited_user) != 0) _exit(2);
  const rlimit most{limit, limit};
  setrlimit(RLIMIT_NPROC, &most);
  set_threads(8);
  const bool right = sum_below(1000) == 499500 && threads() <= static_cast<int>(limit) &&
                     sum_below(2000) == 1999000;
  _exit(right ? 0 : 1);
}

TEST(ThreadLimitDeathTest, LoopsUseTheThreadsThatCanBeStarted) {
  if (!can_be_limited()) GTEST_SKIP() << "needs another user";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const rlim_t limit : {1, 3}) {
    EXPECT_EXIT(loop_with_few_threads(limit), testing::ExitedWithCode(0),
                "binade: using [1-3] threads: the system refuses to start 8");
  }
}

TEST(Threads, CanBeSetWhileLoopsRun) {
  const ThreadCount before(2);
  std::atomic<bool> done = false;
  std::thread setter([&done] {
    for (int i = 0; !done; ++i) set_threads(1 + i % 4);
  });
  for (int i = 0; i < 200; ++i) ASSERT_EQ(sum_below(500), 124750);
  done = true;
  setter.join();
}

TEST(Threads, CanBeSetWithinReason) {
  const int before = threads();
  EXPECT_GE(before, 1);
  set_threads(5);
  EXPECT_EQ(threads(), 5);
  for (const int count : {0, -1, 1025}) {
    try {
      set_threads(count);
      ADD_FAILURE() << count << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                "set_threads: count: expected 1 to 1024, found " + std::to_string(count));
    }
  }
  EXPECT_EQ(threads(), 5);
  set_threads(before);
}

}  // namespace
}  // namespace binade
