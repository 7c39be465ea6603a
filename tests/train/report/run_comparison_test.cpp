#include "binade/train/report/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "train/report/drawing.h"
#include "train/report/page_content.h"
#include "train/report/sample_runs.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunComparison, RowsAreTheRunsNumbers) {
  RunSummary one = distinct_run(), two = distinct_run();
  two.name = "runs/b";
  two.config.precision.matmul = Precision::bf16;
  two.parameters = 12;
  two.records.pop_back();
  two.records.back().validation_loss.reset();  // the one before counts
  two.records.back().loss = std::nan("");
  const std::string html = comparison_html({one, two, RunSummary{.name = "empty"}});
  const std::vector<test::Rows> tables = test::tables_of(html);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0], (test::Rows{{"run", "precision", "parameters", "steps", "validation loss",
                                    "bits per byte", "training loss", "tokens/s", "peak memory",
                                    "skipped", "time"},
                                   {"runs/a", "fp16", "7,654,321", "4,000", "1.7500", "0.631",
                                    "2.5000", "4,000", "6.0 MB", "12", "14 min 00 s"},
                                   {"runs/b", "bf16", "12", "3,000", "2.2500", "0.812", "–",
                                    "4,000", "5.0 MB", "9", "10 min 30 s"}}));
}

TEST(RunComparison, CurvesAreByStepOrByTokensAndInBitsIfTokensDiffer) {
  RunSummary one = distinct_run(), two = distinct_run();
  two.name = "runs/b";
  two.config.precision.matmul = Precision::bf16;
  for (Record& r : two.records) *r.validation_loss += 1;
  const auto validation = [&] { return test::drawings_of(comparison_html({one, two})).at(0); };
  const auto expect = [](const test::Drawing& drawing, const std::string& css,
                         const std::vector<test::Point>& expected) {
    const test::Axis x = x_axis(drawing), y = y_axis(drawing);
    const auto& points = drawing.path(css)->strokes.at(0);
    ASSERT_EQ(points.size(), expected.size());
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_NEAR(x.at(points[i].first), expected[i].first, x.tolerance());
      EXPECT_NEAR(y.at(points[i].second), expected[i].second, y.tolerance());
    }
  };
  const test::Drawing alike = validation();
  EXPECT_EQ(alike.title, "Validation loss");
  EXPECT_NE(alike.text("step"), nullptr);
  expect(alike, "s1", {{0, 5.5}, {1000, 4.75}, {2000, 2.25}, {3000, 1.5}, {4000, 1.75}});
  expect(alike, "s2", {{0, 6.5}, {1000, 5.75}, {2000, 3.25}, {3000, 2.5}, {4000, 2.75}});
  // A tenth more tokens per step are alike; more are not.
  for (Record& r : two.records) *r.tokens = *r.tokens * 11 / 10;
  EXPECT_NE(validation().text("step"), nullptr);
  for (Record& r : two.records) *r.tokens = *r.tokens * 3 / 2;
  const test::Drawing by_tokens = validation();
  EXPECT_EQ(by_tokens.text("step"), nullptr);
  EXPECT_NE(by_tokens.text("tokens"), nullptr);
  expect(by_tokens, "s2",
         {{0, 6.5}, {1386e3, 5.75}, {2772e3, 3.25}, {4158e3, 2.5}, {5544e3, 2.75}});
  two.bytes_per_token = 2;
  const double bit = std::log(2);
  expect(validation(), "s2",
         {{0, 3.25 / bit},
          {1386e3, 2.875 / bit},
          {2772e3, 1.625 / bit},
          {4158e3, 1.25 / bit},
          {5544e3, 1.375 / bit}});
  // The same bytes, but another vocabulary.
  two.bytes_per_token = one.bytes_per_token;
  EXPECT_THAT(comparison_html({one, two}), Not(HasSubstr("different tok")));
  two.config.model.vocab = one.config.model.vocab + 1;
  EXPECT_THAT(comparison_html({one, two}), HasSubstr("different tokenizers"));
}

// Runs of one precision are told apart by position, others by the color of their format.
TEST(RunComparison, EveryRunIsInEveryChart) {
  const auto count = [](const std::string& text, const std::string& part) {
    int64_t found = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  RunSummary one = sample_run(), two = sample_run(), three = sample_run();
  one.name = "first-run", two.name = "second-run", three.name = "third-run";
  const std::string alike = comparison_html({one, two, three});
  EXPECT_GT(count(alike, "first-run"), 3);
  EXPECT_EQ(count(alike, "first-run"), count(alike, "second-run"));
  EXPECT_EQ(count(alike, "first-run"), count(alike, "third-run"));
  one.config.precision.matmul = Precision::fp32, two.config.precision.matmul = Precision::bf16;
  const std::string different = comparison_html({one, two, three});
  EXPECT_EQ(count(different, "first-run"), count(alike, "first-run"));
  EXPECT_NE(different, alike);
}

TEST(RunComparison, LossesOfBytesArePerByte) {
  RunSummary run = sample_run();
  EXPECT_THAT(comparison_html({run, run}), HasSubstr("nats per token"));
  run.bytes_per_token = 1;
  EXPECT_THAT(comparison_html({run, run}), HasSubstr("nats per byte"));
  EXPECT_THAT(comparison_html({run, run}), Not(HasSubstr("nats per token")));
}

TEST(RunComparison, BaselinesHaveNoNegativeZero) {
  RunSummary run = sample_run();
  run.config.precision.automatic = true;
  RunSummary bf16 = sample_run();
  bf16.name = "bf16";
  bf16.config.precision.matmul = Precision::bf16;
  run.config.precision.matmul = Precision::quantized;
  run.records.back().validation_loss = *bf16.records.back().validation_loss * (1 - 1e-6);
  run.baselines = {bf16};
  EXPECT_THAT(baselines_text(run), HasSubstr(" 0.00%"));
  EXPECT_THAT(baselines_text(run), Not(HasSubstr("-0.00%")));
}

}  // namespace
}  // namespace binade::train
