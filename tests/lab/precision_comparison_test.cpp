#include "binade/lab/precision_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
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
      compare(small(folder), {.precisions = {"fp16", "fp16-noscale"}, .seeds = 1});
  EXPECT_GT(found.runs[0].scale, 1);
  EXPECT_EQ(found.runs[1].scale, 1);
  EXPECT_GT(mean_exponent(found.runs[0].gradients), mean_exponent(found.runs[1].gradients) + 4);
  EXPECT_FALSE(found.seed_noise());
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
