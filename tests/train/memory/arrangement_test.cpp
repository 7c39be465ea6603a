#include "binade/train/memory/arrangement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/tensor/memory.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/trainer.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Activations are most of its memory.
Config deep_config(const std::string& precision = "bf16") {
  Config config = small_config(precision);
  config.model.layers = 6;
  config.train.batch = 16;
  config.run.checkpoint_every = 0;
  return config;
}

Config with_bytes(Config config, int64_t bytes) {
  config.train.memory = {.kind = MemoryBudget::Kind::bytes, .bytes = bytes};
  return config;
}

// Bytes that the steps of a run hold at their peak, as the allocator counts them.
int64_t measured(Config config, const nn::Activations& activations) {
  config.train.activations = activations;
  const int64_t before = memory::allocated();
  Trainer trainer(config);
  memory::reset_peak();
  for (int i = 0; i < 3; ++i) trainer.step(small_tokens());
  return memory::statistics().peak - before;
}

TEST(Arrangement, KeepsEverythingThatFits) {
  const Arrangement found = arrange(deep_config());
  EXPECT_EQ(found.activations, nn::Activations::keep());
  EXPECT_GT(found.budget, 0);  // what is free on this machine
  EXPECT_TRUE(found.fits());
  EXPECT_TRUE(savings(found, deep_config()).empty());
}

// Between two arrangements' peaks the smaller one is taken: its steps stay within the budget, and
// the next one's forecast does not.
TEST(Arrangement, KeepsAsManyBlocksAsTheMemoryHolds) {
  const Config config = deep_config();
  Config smallest = config;
  smallest.train.memory.kind = MemoryBudget::Kind::least;
  const int64_t least = arrange(smallest).peak,
                most = arrange(with_bytes(config, int64_t{1} << 40)).peak;
  std::vector<int64_t> kept;
  for (const double share : {0.0, 0.3, 0.55, 0.8, 0.98}) {
    const auto budget = least + static_cast<int64_t>(share * static_cast<double>(most - least));
    const Arrangement found = arrange(with_bytes(config, budget));
    EXPECT_LE(found.peak, budget);
    EXPECT_LE(measured(config, found.activations), budget) << share;
    kept.push_back(found.activations.kept);
    Config next = config;
    next.train.activations = nn::Activations{.kept = kept.back() + 1, .lean = 0};
    EXPECT_GT(forecast_memory(next).peak_reserved, budget) << share;
  }
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  // The backward of the last block begins with its activations in any case.
  EXPECT_EQ(kept.front(), 1);
  EXPECT_GE(kept.back(), 4);
}

// A CPU's checkpoints are written from a copy of f32 weights and two moments.
TEST(Arrangement, CountsTheCopyOfACheckpoint) {
  Config config = deep_config("fp32");
  const int64_t without = arrange(config).peak;
  config.run.checkpoint_every = 2;
  const int64_t copied = arrange(config).peak - without;
  const auto expected = static_cast<double>(12 * Trainer(config).model().parameter_count());
  EXPECT_NEAR(static_cast<double>(copied), expected, 0.05 * expected);
}

TEST(Arrangement, RefusesBytesThatNoArrangementFits) {
  const Config config = with_bytes(deep_config(), 100'000);
  EXPECT_THAT(test::error_of([&] { arrange(config); }),
              AllOf(HasSubstr("--memory 100kB: expected at least "),
                    HasSubstr("with all activations computed again, found 100 kB"),
                    HasSubstr("--moments 8bit would save ")));
}

TEST(Arrangement, TakesTheLeastIfAsked) {
  Config config = deep_config();
  config.train.memory.kind = MemoryBudget::Kind::least;
  const Arrangement found = arrange(config);
  EXPECT_EQ(found.activations, (nn::Activations{.kept = 1, .lean = 0}));
  const int64_t bytes = measured(config, found.activations);
  EXPECT_NEAR(static_cast<double>(bytes),
              static_cast<double>(measured(config, nn::Activations::recompute())),
              0.03 * static_cast<double>(bytes));
  EXPECT_LT(static_cast<double>(bytes),
            0.7 * static_cast<double>(measured(config, nn::Activations::keep())));
}

TEST(Arrangement, SaysWhatBlocksKeep) {
  Config config = deep_config();
  const auto text = [&](const nn::Activations& activations) {
    return describe({activations, 7'600'000, 8'000'000}, config);
  };
  EXPECT_EQ(text(nn::Activations::keep()), "7.6 MB of 8.0 MB; all activations kept");
  EXPECT_EQ(text({.kept = 2, .lean = 0}),
            "7.6 MB of 8.0 MB; activations of 6 blocks: 2 kept, 4 recomputed");
  EXPECT_EQ(text({.kept = 1}), "7.6 MB of 8.0 MB; activations of 6 blocks: 1 kept, 5 lean");
  EXPECT_EQ(text({.kept = 1, .lean = 2}),
            "7.6 MB of 8.0 MB; activations of 6 blocks: 1 kept, 2 lean, 3 recomputed");
  EXPECT_EQ(text(nn::Activations::recompute()), "7.6 MB of 8.0 MB; all activations recomputed");
}

TEST(Arrangement, OffersWhatWouldSaveMemory) {
  Config config = deep_config();
  config.train.batch = 1;
  config.model.width = 64;
  config.train.memory.kind = MemoryBudget::Kind::least;
  const Arrangement found = arrange(config);
  const std::vector<std::string> offers = savings(found, config);
  ASSERT_EQ(offers.size(), 2u);
  EXPECT_THAT(offers[0], HasSubstr("--moments 8bit would save "));
  EXPECT_THAT(offers[1], HasSubstr("--params split would save "));
  config.precision.moments = DType::u8;
  EXPECT_EQ(savings(arrange(config), config).size(), 1u);
}

// In stage 1 a rank has its share of the moments alone, so smaller ones save it that share.
TEST(Arrangement, OffersWhatARankWouldSave) {
  Config config = deep_config();
  config.train.batch = 1;
  config.train.accumulate = 4;
  config.model.width = 64;
  config.train.activations = nn::Activations::recompute();
  const Arrangement found{.activations = *config.train.activations};
  const auto saved = [&](int size) {
    const std::vector<std::string> offers = savings(found, config, *ranks::simulated(0, size));
    return offers.empty() ? 0.0 : std::stod(offers[0].substr(offers[0].find("save ") + 5));
  };
  EXPECT_NEAR(saved(4), saved(1) / 4, 0.1 * saved(1));
}

// Blocks of every kind in one model, with dropout, whose masks a second run must draw again.
TEST(Arrangement, ChangesNoBit) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    Config config = deep_config(precision);
    config.train.batch = 2;
    config.train.accumulate = 2;
    config.train.dropout = 0.25;
    std::vector<std::vector<double>> all;
    for (const nn::Activations& activations :
         {nn::Activations::keep(), nn::Activations{}, nn::Activations{.kept = 2, .lean = 0},
          nn::Activations{.kept = 1, .lean = 2}, nn::Activations::recompute()}) {
      config.train.activations = activations;
      Trainer trainer(config);
      std::vector<double> values;
      for (int i = 0; i < 3; ++i) values.push_back(trainer.step(small_tokens()).loss);
      for (const Tensor& weight : trainer.model().parameters()) {
        const std::vector<double> one = test::read(weight);
        values.insert(values.end(), one.begin(), one.end());
      }
      all.push_back(std::move(values));
    }
    for (const auto& values : all) EXPECT_EQ(values, all[0]) << precision;
  }
}

}  // namespace
}  // namespace binade::train
