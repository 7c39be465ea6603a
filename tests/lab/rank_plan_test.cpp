#include "binade/lab/rank_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

using memory::Category;
using ::testing::HasSubstr;

train::Config rank_config() {
  train::Config config = train::small_config("bf16");
  config.width = 256;
  config.hidden = 1024;
  config.accumulate = 8;
  return config;
}

TEST(RankPlan, OfOneRankIsTheForecastItself) {
  const Forecast alone = forecast(rank_config());
  const RankPlan plan = plan_ranks(rank_config(), alone, 2.0, 1, {});
  EXPECT_EQ(plan.memory[0], alone.peak);
  EXPECT_EQ(plan.bytes_sent, 0);
  EXPECT_EQ(plan.communication, 0);
  EXPECT_DOUBLE_EQ(plan.tokens_per_second, 8 * 2 * 8 / 2.0);
}

// Four ranks with two micro-batches each: of 4P bytes of gradients three quarters leave twice, and
// of 4P bytes of weights a quarter goes to three ranks. The owners' shares are chunks, so about.
TEST(RankPlan, SendsWhatTheFormulaSays) {
  const Forecast alone = forecast(rank_config());
  const auto count = static_cast<double>(alone.parameter_count);
  const RankPlan plan = plan_ranks(rank_config(), alone, 2.0, 4, {.per_node = 4, .inside = 1e9});
  const double formula = 2 * 4 * count * 3 / 4 + 4 * count * 3 / 4;
  EXPECT_NEAR(static_cast<double>(plan.bytes_sent), formula, 0.06 * formula);
  EXPECT_DOUBLE_EQ(plan.communication, static_cast<double>(plan.bytes_sent) / 1e9);
  EXPECT_DOUBLE_EQ(plan.compute, 2.0 * 2 / 8);
  // Two nodes of two: a third of each rank's peers are near.
  const RankPlan far =
      plan_ranks(rank_config(), alone, 2.0, 4, {.per_node = 2, .inside = 1e9, .between = 1e9});
  EXPECT_DOUBLE_EQ(far.communication, static_cast<double>(plan.bytes_sent) * 2 / 3 / 1e9);
}

TEST(RankPlan, ShardsMomentsAndGradients) {
  const Forecast alone = forecast(rank_config());
  const int64_t count = alone.parameter_count;
  const RankPlan two = plan_ranks(rank_config(), alone, 2.0, 2, {});
  EXPECT_EQ(two.memory[0] - two.memory[1], 4 * count);
  const RankPlan eight = plan_ranks(rank_config(), alone, 2.0, 8, {});
  // 12P/2 - 12P/8 less, and the same buffers.
  const double less = 12.0 * static_cast<double>(count) * 3 / 8;
  EXPECT_NEAR(static_cast<double>(two.memory[1] - eight.memory[1]), less, 0.06 * less);
}

TEST(RankPlan, CountsIdleRounds) {
  EXPECT_DOUBLE_EQ(plan_ranks(rank_config(), forecast(rank_config()), 2.0, 3, {}).idle,
                   1 - 8.0 / 9);
  EXPECT_DOUBLE_EQ(plan_ranks(rank_config(), forecast(rank_config()), 2.0, 8, {}).idle, 0);
}

TEST(RankPlan, GoesUpToThousands) {
  train::Config config = train::small_config();
  config.accumulate = 4096;
  const std::vector<RankPlan> plans = plan_up_to(config, 4096, {});
  ASSERT_EQ(plans.size(), 13u);
  EXPECT_EQ(plans.back().ranks, 4096);
  EXPECT_THAT(rank_plan_text(plans), HasSubstr(" 4096  "));
  EXPECT_THROW(plan_up_to(train::small_config(), 2, {}), Error);
}

}  // namespace
}  // namespace binade::lab
