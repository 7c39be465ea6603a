#include "binade/lab/precision_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

using ::testing::HasSubstr;

train::Config small(const testing::TemporaryFolder& folder) {
  train::Config config = train::small_config("bf16");
  config.data = folder.put("text.txt", train::small_text()).string();
  config.steps = 8;
  return config;
}

TEST(Compare, RunsTheSameModelInEachPrecision) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> lines;
  const Comparison found = compare(small(folder), {.precisions = comparable(), .seeds = 2},
                                   [&lines](const std::string& line) { lines.push_back(line); });
  ASSERT_EQ(found.runs.size(), comparable().size());
  EXPECT_EQ(lines.size(), comparable().size() + 1);
  const ComparedRun& base = found.runs[0];
  for (const ComparedRun& run : found.runs) {
    ASSERT_EQ(run.records.size(), 8u) << run.precision;
    // The same weights and batches: the first losses differ only by the rounding of matmuls.
    EXPECT_NEAR(run.records[0].loss, base.records[0].loss, 0.02) << run.precision;
    EXPECT_NEAR(run.loss, base.loss, 0.1 * base.loss) << run.precision;
    EXPECT_GT(run.tokens_per_second, 0) << run.precision;
    EXPECT_GT(run.memory.peak, 0) << run.precision;
    EXPECT_FALSE(run.weights.fractions.empty() || run.activations.fractions.empty() ||
                 run.gradients.fractions.empty())
        << run.precision;
  }
  EXPECT_EQ(found.seed_losses[0], base.loss);
  EXPECT_NE(found.seed_losses[1], base.loss);
  EXPECT_GT(*found.seed_noise(), 0);
}

double mean_exponent(const ExponentHistogram& histogram) {
  double sum = 0, total = 0;
  for (size_t i = 0; i < histogram.fractions.size(); ++i) {
    sum += histogram.fractions[i] * (histogram.first + static_cast<double>(i));
    total += histogram.fractions[i];
  }
  return sum / total;
}

// The loss scale of 2^16 raises gradients by 16 binades; without it, some underflow.
TEST(Compare, WithoutAScalerF16GradientsAreSmaller) {
  const testing::TemporaryFolder folder;
  const Comparison found =
      compare(small(folder), {.precisions = {"fp16", "fp16-noscale"}, .seeds = 2});
  EXPECT_GT(found.runs[0].scale, 1);
  EXPECT_EQ(found.runs[1].scale, 1);
  EXPECT_GT(mean_exponent(found.runs[0].gradients), mean_exponent(found.runs[1].gradients) + 4);
}

TEST(Compare, ValidatesAboutTenTimes) {
  const testing::TemporaryFolder folder;
  train::Config config = small(folder);
  config.steps = 25;  // a tenth is 2 steps
  const Comparison found = compare(config, {.precisions = {"fp32"}, .seeds = 2});
  for (const train::Record& record : found.runs[0].records)
    EXPECT_EQ(record.validation_loss.has_value(), record.step % 2 == 0 || record.step == 25);
  EXPECT_EQ(found.runs[0].loss, found.runs[0].records.back().validation_loss);
}

TEST(Compare, KeepsCompleteRunsWhenItIsEnded) {
  const testing::TemporaryFolder folder;
  std::vector<CompareProgress> calls;
  const auto until = [&calls](int64_t index, int64_t step) {
    return [&calls, index, step](const CompareProgress& now) {
      calls.push_back(now);
      return !(now.index == index && now.step == step);
    };
  };
  const std::vector<std::string> precisions = {"fp32", "bf16"};
  const Comparison second =
      compare(small(folder), {.precisions = precisions, .seeds = 2, .on_step = until(2, 3)});
  EXPECT_TRUE(second.interrupted);
  ASSERT_EQ(second.runs.size(), 1u);
  EXPECT_EQ(second.runs[0].records.size(), 8u);
  EXPECT_FALSE(second.seed_noise());
  ASSERT_EQ(calls.size(), 11u);  // 8 steps of fp32, 3 of bf16
  EXPECT_EQ(calls.back().run, "bf16");
  EXPECT_EQ(calls.back().runs, 3);
  EXPECT_EQ(calls.back().steps, 8);
  const Comparison seed =
      compare(small(folder), {.precisions = precisions, .seeds = 2, .on_step = until(3, 1)});
  EXPECT_EQ(seed.runs.size(), 2u);
  EXPECT_EQ(calls.back().run, "fp32, seed 1");
  EXPECT_TRUE(
      compare(small(folder), {.precisions = precisions, .on_step = until(1, 1)}).runs.empty());
}

TEST(Compare, MarksDifferencesAboveTheSeedNoise) {
  const auto run = [](double loss) { return ComparedRun{.precision = "", .loss = loss}; };
  Comparison comparison{.runs = {run(2.0)}, .seed_losses = {2.0, 2.03, 1.98}};
  EXPECT_DOUBLE_EQ(*comparison.seed_noise(), 2.03 - 1.98);
  EXPECT_FALSE(comparison.is_outside_noise(run(2.04)));
  EXPECT_FALSE(comparison.is_outside_noise(run(1.96)));
  EXPECT_TRUE(comparison.is_outside_noise(run(2.06)));
  EXPECT_TRUE(comparison.is_outside_noise(run(1.94)));
  EXPECT_TRUE(comparison.is_outside_noise(run(NAN)));
  comparison.seed_losses.resize(1);  // not measured
  EXPECT_FALSE(comparison.is_outside_noise(run(3)));
  EXPECT_TRUE(comparison.is_outside_noise(run(NAN)));
}

TEST(Compare, ReadsTheTokenizersIds) {
  const testing::TemporaryFolder folder;
  train::Config config = small(folder);
  config.tokenizer = "no-such.model";
  EXPECT_THAT(test::error_of([&config] { compare(config, {}); }), HasSubstr("no-such.model"));
}

TEST(Comparison, SeedNoiseIsTheRangeOfTheLosses) {
  Comparison comparison;
  comparison.seed_losses = {2.5};
  EXPECT_FALSE(comparison.seed_noise());
  comparison.seed_losses = {2.5, 3.25, 2.25, 3};
  EXPECT_EQ(comparison.seed_noise(), 1);
}

TEST(Compare, WritesATableAndAPage) {
  const testing::TemporaryFolder folder;
  const Comparison found =
      compare(small(folder), {.precisions = {"fp32", "fp8-current"}, .seeds = 2});
  const std::string text = compare_text(found), page = compare_html(found);
  EXPECT_THAT(text, HasSubstr("fp8-current"));
  EXPECT_THAT(text, HasSubstr("between seeds (2 runs)"));
  EXPECT_THAT(page, HasSubstr("Training loss minus that of fp32"));
  EXPECT_THAT(page, HasSubstr("Fraction of values by exponent"));
  for (const char* outside : {"http:", "https:", "<script", "url(", "nan"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(Compare, RefusesUnknownPrecisions) {
  try {
    in_precision({}, "fp4");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("fp16-noscale"));
    EXPECT_THAT(error.what(), HasSubstr("'fp4'"));
  }
}

}  // namespace
}  // namespace binade::lab
