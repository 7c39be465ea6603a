#include "binade/lab/rank_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "binade/base/error.h"
#include "binade/ranks/communicator.h"
#include "binade/train/trainer.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

using ::testing::HasSubstr;

train::Config rank_config() {
  train::Config config = train::small_config("bf16");
  config.model.width = 256;
  config.model.hidden = 1024;
  config.train.accumulate = 8;
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
  const auto bytes = static_cast<double>(4 * count);
  // Gradients that are whole at the peak in stage 1 alone: all but those of the bucket under way.
  EXPECT_LE(two.memory[1], two.memory[0]);
  EXPECT_NEAR(static_cast<double>(two.memory[0] - two.memory[1]), bytes, bytes);
  const RankPlan eight = plan_ranks(rank_config(), alone, 2.0, 8, {});
  // 12P/2 - 12P/8 less, and the same buffers.
  const double less = 12.0 * static_cast<double>(count) * 3 / 8;
  EXPECT_NEAR(static_cast<double>(two.memory[1] - eight.memory[1]), less, 0.06 * less);
}

// The bytes that the steps of each rank count on the meta device, of the rank that sends the most.
TEST(RankPlan, SendsWhatTheRanksSend) {
  train::Config config = rank_config();
  config.train.accumulate = 5;
  const Forecast alone = forecast(config);
  for (const char* freeze : {"", "blocks.1"}) {
    if (*freeze != 0) config.train.freeze = {freeze};
    for (const int stage : {1, 2, 3}) {
      config.ranks.stage = stage;
      for (const int ranks : {2, 3}) {
        train::Config on_meta = config;
        on_meta.train.device = Device::meta();
        double most = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          train::Trainer trainer(on_meta, ranks::simulated(rank, ranks));
          trainer.step(train::small_tokens());
          most = std::max(most, trainer.rank_times()[0].sent);
        }
        // Beside these, hosts tell each other 40 bytes.
        EXPECT_EQ(static_cast<double>(plan_ranks(config, alone, 2.0, ranks, {}).bytes_sent),
                  most - 40 * (ranks - 1))
            << "stage " << stage << ", " << ranks << " ranks " << freeze;
      }
    }
  }
}

// Half of the blocks' 16-bit parameters are with the other rank. At the peak a block is whole, and
// the next one may be on its way, in a buffer with what is sent of it.
TEST(RankPlan, StageThreeShardsTheBlocks) {
  train::Config config = rank_config();
  config.precision.params = train::ParameterStorage::masters;
  config.model.layers = 8;
  const Forecast alone = forecast(config);
  const RankPlan two = plan_ranks(config, alone, 2.0, 2, {}),
                 eight = plan_ranks(config, alone, 2.0, 8, {});
  const double blocks = 8 * 12.0 * 256 * 256;
  const auto less = static_cast<double>(two.memory[1] - two.memory[2]);
  EXPECT_LE(less, 2 * blocks / 2);
  EXPECT_GE(less, 2 * blocks / 2 - 3 * (2 * blocks / 8));
  EXPECT_LT(eight.memory[2], two.memory[2]);
}

TEST(RankPlan, CountsIdleRounds) {
  EXPECT_DOUBLE_EQ(plan_ranks(rank_config(), forecast(rank_config()), 2.0, 3, {}).idle,
                   1 - 8.0 / 9);
  EXPECT_DOUBLE_EQ(plan_ranks(rank_config(), forecast(rank_config()), 2.0, 8, {}).idle, 0);
}

// A model of hundreds of billions on one CPU takes years.
TEST(RankPlan, KeepsColumnsApartForHugeModels) {
  const std::vector<RankPlan> plans{
      {.ranks = 1,
       .bytes_sent = 209'000'000'000'000,
       .communication = 1e5,
       .compute = 290'446'372,
       .tokens_per_second = 0.001},
      {.ranks = 2, .communication = 2 * 86'400, .compute = 86'399, .tokens_per_second = 3}};
  const std::string text = rank_plan_text(plans);
  EXPECT_THAT(text, HasSubstr("209 TB      3,362 d    1.16 d"));
  EXPECT_THAT(text, HasSubstr("   86,399 s       2 d"));
}

TEST(RankPlan, GoesUpToThousands) {
  train::Config config = train::small_config();
  config.train.accumulate = 4096;
  const std::vector<RankPlan> plans = plan_up_to(config, 4096, {});
  ASSERT_EQ(plans.size(), 13u);
  EXPECT_EQ(plans.back().ranks, 4096);
  EXPECT_THAT(rank_plan_text(plans), HasSubstr(" 4096  "));
  EXPECT_THAT(rank_plan_text(plans), HasSubstr("  ########################"));
  std::istringstream lines(rank_plan_text(plans, 80));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THROW(plan_up_to(train::small_config(), 2, {}), Error);
}

}  // namespace
}  // namespace binade::lab
