#include "binade/ranks/watchdog.h"

#include <gtest/gtest.h>

namespace binade::ranks {
namespace {

const Operation fold{40, "fold of bucket 4", 1024, "step 12"};

TEST(Watchdog, NamesTheSilentRank) {
  EXPECT_EQ(describe({fold, fold, fold, {}}, fold, 30.2),
            "waiting for rank 3 in step 12, fold of bucket 4, silent for 30 s");
  EXPECT_EQ(describe({{}, fold, {}, fold}, fold, 5),
            "waiting for ranks 0, 2 in step 12, fold of bucket 4, silent for 5 s");
}

TEST(Watchdog, NamesRanksThatAreOutOfStep) {
  EXPECT_EQ(describe({fold, Operation{41, "tally", 8, "step 12"}, fold}, fold, 30),
            "ranks are out of step: rank 0 waits in step 12, fold of bucket 4 (1024 bytes, "
            "collective 40); rank 1 in step 12, tally (8 bytes, collective 41)");
}

TEST(Watchdog, SaysThatMessagesAreLost) {
  EXPECT_EQ(describe({fold, fold}, fold, 30),
            "all ranks wait in step 12, fold of bucket 4 for 30 s: messages do not arrive");
}

TEST(Watchdog, LetsTheLowestRankThatAnswersSpeak) {
  EXPECT_EQ(speaker({fold, fold}), 0);
  EXPECT_EQ(speaker({{}, {}, fold}), 2);
}

}  // namespace
}  // namespace binade::ranks
