#include "binade/train/run/step_meter.h"

#include <gtest/gtest.h>

#include <limits>

#include "train/small_run.h"

namespace binade::train {
namespace {

class Meter : public ::testing::Test {
 protected:
  Meter() { config_.train.accumulate = 3; }

  Config config_ = small_config();
  StepMeter meter_{{config_, small_tokens(), Device::cpu(), std::chrono::steady_clock::now()}};
};

// 2 sequences of 8 tokens in each of 3 micro-batches.
TEST_F(Meter, AddsTimeAndTokensToThoseOfTheLog) {
  meter_.continue_from(100, 5000);
  meter_.add(1, 2, false);
  meter_.add(2, 0.5, false);
  EXPECT_DOUBLE_EQ(meter_.seconds(), 102.5);
  EXPECT_EQ(meter_.tokens(), 5000 + 2 * 48);
  EXPECT_DOUBLE_EQ(meter_.tokens_per_second(), 96 / 2.5);
}

TEST_F(Meter, LeavesObservedStepsOutOfTheSpeed) {
  meter_.add(1, 2, true);  // until there is another one
  EXPECT_DOUBLE_EQ(meter_.tokens_per_second(), 24);
  meter_.add(2, 1, false);
  meter_.add(3, 50, true);
  EXPECT_DOUBLE_EQ(meter_.tokens_per_second(), 48);
  EXPECT_DOUBLE_EQ(meter_.seconds(), 53);
}

TEST_F(Meter, KnowsNoFullSpeedThatARunExceeds) {
  meter_.set_full_speed(30);
  meter_.add(1, 2, false);
  EXPECT_EQ(meter_.full_speed(), 30);
  meter_.add(2, 1, false);
  EXPECT_EQ(meter_.full_speed(), 0);
}

TEST_F(Meter, SharesTheTimeAmongResultsThatArriveTogether) {
  const double before = meter_.elapsed();
  meter_.leave_out_time();
  const double each = meter_.seconds_of_each(1'000'000);
  EXPECT_GE(each, 0);
  EXPECT_LE(1'000'000 * each, (meter_.elapsed() - before) * (1 + 1e-9));
}

}  // namespace
}  // namespace binade::train
