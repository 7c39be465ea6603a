#include "binade/ranks/step_clock.h"

#include <gtest/gtest.h>

namespace binade::ranks {
namespace {

void send(Communicator& ranks, int64_t bytes) {
  std::vector<std::byte> own(static_cast<size_t>(bytes)), all(own.size() * 3);
  ranks.all_gather("something", own, all, std::vector<int64_t>(3, bytes));
}

// One of three ranks, which sends what it gathers to the two others.
TEST(StepClock, CountsWhatStepsAndReplaysSend) {
  const auto ranks = simulated(0, 3);
  StepClock clock(ranks);
  send(*ranks, 1000);  // before the steps
  clock.begin();
  send(*ranks, 10);
  clock.capture([&] { send(*ranks, 7); });
  clock.end();
  EXPECT_EQ(clock.time().sent, 34);
  send(*ranks, 1000);
  for (int replay = 1; replay <= 2; ++replay) {
    clock.begin();
    clock.note_replay();
    clock.end();
    EXPECT_EQ(clock.time().sent, 34 + 14 * replay);
  }
  EXPECT_GT(clock.time().seconds, 0);
  EXPECT_EQ(clock.gather().size(), 3u);
}

TEST(StepClock, OfAProcessAloneComparesNothing) {
  EXPECT_TRUE(StepClock(single()).gather().empty());
}

}  // namespace
}  // namespace binade::ranks
