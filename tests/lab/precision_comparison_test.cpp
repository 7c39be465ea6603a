#include "binade/lab/precision_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/pages.h"
#include "support/values.h"
#include "train/report/drawing.h"
#include "train/report/page_content.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

using ::testing::HasSubstr;

train::Config small(const testing::TemporaryFolder& folder) {
  train::Config config = train::small_config("bf16");
  config.data.source = folder.put("text.txt", train::small_text()).string();
  config.train.steps = 8;
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
  EXPECT_GT(found.flushed_gradients(found.runs[1]), 0.01);
  EXPECT_EQ(found.flushed_gradients(found.runs[0]), 0);
  EXPECT_GT(mean_exponent(found.runs[0].gradients), mean_exponent(found.runs[1].gradients) + 4);
}

TEST(Compare, ValidatesAboutTenTimes) {
  const testing::TemporaryFolder folder;
  train::Config config = small(folder);
  config.train.steps = 25;  // a tenth is 2 steps
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
  config.data.tokenizer = "no-such.model";
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
  EXPECT_THAT(test::outside_references(page), ::testing::IsEmpty());
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

// Two precisions, three steps, three seeds: every number different.
Comparison made_comparison() {
  Comparison made;
  made.config.train.steps = 300, made.config.train.accumulate = 3, made.config.train.batch = 5;
  made.config.model.context = 7, made.config.data.source = "a & b.txt";
  const auto run = [](const char* precision, double shift) {
    ComparedRun one{
        .precision = precision, .loss = 2 + shift, .tokens_per_second = 12345.6 + shift};
    const double losses[] = {6, 4, 3.5}, shifts[] = {0, shift, 2 * shift};
    for (size_t i = 0; i < 3; ++i) {
      train::Record record{.step = static_cast<int64_t>(100 * (i + 1)),
                           .loss = losses[i] + shifts[i]};
      if (i != 1) record.validation_loss = losses[i] - 0.5 + shifts[i];
      one.records.push_back(record);
    }
    for (size_t i = 0; i < one.memory.at_peak.size(); ++i)
      one.memory.at_peak[i] = static_cast<int64_t>(1000 * (i + 1));
    one.memory.peak = 28'000'000;
    one.skipped = 4;
    one.scale = 512;
    one.weights = {.name = "weights", .first = -4, .fractions = {0.5, 0.5}};
    return one;
  };
  made.runs = {run("bf16", 0), run("fp16", 0.25)};
  made.seed_losses = {2, 2.125, 1.9375};
  return made;
}

TEST(CompareReport, RowsAreTheRunsNumbers) {
  Comparison made = made_comparison();
  made.runs[0].gradients.zeros = 0.2;
  made.runs[1].gradients.zeros = 0.5;
  const auto rows = test::tables_of(compare_html(made)).at(0);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0],
            (std::vector<std::string>{"precision", "loss", "difference", "flushed", "tokens/s",
                                      "at equal loss", "peak", "parameters", "gradients",
                                      "optimizer", "activations", "skipped", "scale"}));
  const auto bytes = [](memory::Category category) {
    return std::to_string(static_cast<int>(category) + 1) + ".0 kB";
  };
  // The precision's cell has a swatch, so it is not plain text.
  const std::vector<std::string> memory = {
      bytes(memory::Category::parameters), bytes(memory::Category::gradients),
      bytes(memory::Category::optimizer), bytes(memory::Category::activations)};
  std::vector<std::string> bf16 = {"2.0000", "-", "0.0%", "12,346", "-", "28 MB"};
  std::vector<std::string> fp16 = {"2.2500", "+12.50% *", "37.5%", "12,346", "n/a", "28 MB"};
  for (auto* row : {&bf16, &fp16}) row->insert(row->end(), memory.begin(), memory.end());
  bf16.insert(bf16.end(), {"4", "-"});
  fp16.insert(fp16.end(), {"4", "512"});
  EXPECT_EQ(rows[1], bf16);
  EXPECT_EQ(rows[2], fp16);
  const std::string text = compare_text(made);
  // (2.125 - 1.9375) / 2
  EXPECT_THAT(text,
              HasSubstr("relative to bf16, whose loss varies by 9.38% between seeds (3 runs)"));
  EXPECT_THAT(text, HasSubstr("An asterisk marks larger ones."));
  made.seed_losses = {2, 3};
  EXPECT_EQ(compare_text(made).find("*"), std::string::npos);
  EXPECT_EQ(compare_text(made).find("asterisk"), std::string::npos);
  made.seed_losses = {2};
  EXPECT_THAT(compare_text(made), HasSubstr("seed noise was not measured"));
  made.runs[1].loss = NAN;
  EXPECT_THAT(compare_text(made), HasSubstr("diverged"));
  EXPECT_THAT(compare_html(made),
              HasSubstr("300 steps of 3 x 5 sequences of 7 tokens from a &amp; b.txt"));
}

TEST(CompareReport, ChartsReadBack) {
  const std::vector<test::Drawing> all = test::drawings_of(compare_html(made_comparison()));
  const auto chart = [&all](const std::string& title) -> const test::Drawing& {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const test::Drawing& one) { return one.title == title; });
    EXPECT_NE(found, all.end()) << title;
    return found == all.end() ? all.front() : *found;
  };
  const auto expect = [&chart](const std::string& title, const std::string& css,
                               const std::vector<test::Point>& expected) {
    const test::Drawing& one = chart(title);
    ASSERT_NE(one.path(css), nullptr) << title << ": " << css;
    const test::Axis x = x_axis(one), y = y_axis(one);
    const std::vector<test::Point>& points = one.path(css)->strokes.at(0);
    ASSERT_EQ(points.size(), expected.size()) << title;
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_NEAR(x.at(points[i].first), expected[i].first, x.tolerance()) << title;
      EXPECT_NEAR(y.at(points[i].second), expected[i].second, y.tolerance()) << title;
    }
  };
  expect("Validation loss", "s2", {{100, 5.5}, {300, 3}});
  expect("Validation loss", "s1", {{100, 5.5}, {300, 3.5}});
  expect("Validation loss minus that of bf16", "s2", {{100, 0}, {300, 0}});
  expect("Validation loss minus that of bf16", "s1", {{100, 0}, {300, 0.5}});
  // Seeds differ by 0.1875.
  expect("Validation loss minus that of bf16", "band",
         {{100, 0.1875}, {300, 0.1875}, {300, -0.1875}, {100, -0.1875}});
  // Means of three steps, of one at the ends.
  expect("Training loss minus that of bf16", "s1", {{100, 0}, {200, 0.25}, {300, 0.5}});
  const test::Drawing& memory = chart("Memory at its peak, by category");
  std::vector<test::Drawing::Area> parts;
  for (const test::Drawing::Area& area : memory.areas)
    if (area.height == 22) parts.push_back(area);  // others are the legend's
  ASSERT_EQ(parts.size(), 2u * memory::category_count);
  for (size_t i = 0; i < memory::category_count; ++i) {
    EXPECT_NEAR(parts[i].width / parts[0].width, static_cast<double>(i + 1), 0.1);
    EXPECT_NE(memory.text(std::string(memory::name(static_cast<memory::Category>(i)))), nullptr);
  }
  EXPECT_NE(chart("Tokens per second").text("12,346"), nullptr);
  const test::Drawing& weights = chart("Weights");
  ASSERT_EQ(weights.areas.size(), 2u);  // the ranges of both formats
  EXPECT_EQ(weights.areas[0].css, "f2 range");
  EXPECT_EQ(weights.areas[1].css, "f1 range");
  EXPECT_GT(weights.areas[0].width, weights.areas[1].width);
}

// TF32 has the exponents of f32; FP8's depend on its scales.
TEST(CompareReport, RangesAreThoseOfTheFormats) {
  Comparison made = made_comparison();
  made.runs.resize(1);
  const auto add = [&made](const char* precision) {
    made.runs.push_back(made.runs[0]);
    made.runs.back().precision = precision;
  };
  add("fp32");
  add("tf32");
  add("fp16-noscale");
  add("fp8-delayed");
  const std::vector<test::Drawing> all = test::drawings_of(compare_html(made));
  const auto weights = std::find_if(
      all.begin(), all.end(), [](const test::Drawing& one) { return one.title == "Weights"; });
  ASSERT_NE(weights, all.end());
  ASSERT_EQ(weights->areas.size(), 4u);
  EXPECT_EQ(weights->areas[1].width, weights->areas[2].width);
  EXPECT_GT(weights->areas[1].width, weights->areas[3].width);
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
