#include "binade/train/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "binade/train/report/run_comparison.h"
#include "io/temporary_folder.h"
#include "support/pages.h"
#include "train/report/drawing.h"
#include "train/report/page_content.h"
#include "train/report/sample_runs.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Report, IsSelfContainedAndEscaped) {
  const std::string html = report_html(sample_run());
  for (const char* part : {"<!doctype html>",
                           "viewport",
                           "prefers-color-scheme: dark",
                           "Loss scale",
                           "Gradient norm",
                           "Throughput",
                           "Memory at its peak",
                           "parameters",
                           "25% of peak",
                           "nats per token",
                           "validation",
                           "[precision]",
                           "1,234",
                           "Bits per byte",
                           "at step 20",
                           "<details>",
                           "2026-01-02",
                           "0.9.9",
                           "binade train --x",
                           "Some CPU"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(test::outside_references(html), ::testing::IsEmpty());
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, HasSubstr("a &lt; b &amp;&amp; c"));
  EXPECT_GT(html.find("<script>"), html.find("</details>"));  // that of the charts
  EXPECT_EQ(html.find("http-equiv"), html.npos);
}

TEST(Report, OfARunningRunIsLoadedAgain) {
  RunSummary run = sample_run();
  run.is_running = true;
  const std::string html = report_html(run);
  EXPECT_THAT(html, HasSubstr("<meta http-equiv=\"refresh\" content=\""));
  EXPECT_THAT(html, HasSubstr("still running"));
}

TEST(Report, TilesAreTheRunsNumbers) {
  RunSummary run = distinct_run();
  const std::string html = report_html(run);
  EXPECT_THAT(html, HasSubstr("<p>3 layers, width 48, 6 heads, context 24; trained on "
                              "some/text.txt with batches of 5 x 7 sequences.</p>"));
  EXPECT_THAT(html, HasSubstr("GPT-2 in fp16, 7,654,321 parameters"));
  const std::map<std::string, test::TileText> expected = {
      {"Validation loss", {"1.7500", "from 5.5000"}},
      {"Best validation loss", {"1.5000", "at step 3,000"}},
      {"Bits per byte", {"0.631", "of the validation text"}},  // 1.75 / ln 2 / 4
      {"Training loss", {"2.5000", "at the last step"}},
      {"Steps", {"4,000", "of 4,000"}},
      {"Time", {"14 min 00 s", ""}},
      {"Tokens per second", {"4,000", "40% of peak"}},  // 3,360,000 in 840 s
      {"Peak memory", {"6.0 MB", ""}},
      {"Skipped steps", {"12", ""}}};
  EXPECT_EQ(test::tiles_of(html), expected);
  run.full_speed = 0;
  run.bytes_per_token = 0;
  run.records = {run.records[2]};
  run.records[0].joules_per_token = 0.0123;
  run.config.model.layers = 1, run.config.model.heads = 1;
  const std::string little = report_html(run);
  EXPECT_THAT(little, HasSubstr("<p>1 layer, width 48, 1 head, context"));
  const std::map<std::string, test::TileText> fewer = {
      {"Validation loss", {"2.2500", ""}},  {"Training loss", {"3.2500", "at the last step"}},
      {"Steps", {"2,000", "of 4,000"}},     {"Time", {"7 min 00 s", ""}},
      {"Tokens per second", {"4,000", ""}}, {"Energy", {"12.3 mJ per token", ""}},
      {"Peak memory", {"4.0 MB", ""}},      {"Skipped steps", {"6", ""}}};
  EXPECT_EQ(test::tiles_of(little), fewer);
}

// Each chart, read back from its axes.
TEST(Report, ChartsAreTheRunsNumbers) {
  const RunSummary run = distinct_run();
  const std::vector<test::Drawing> all = test::drawings_of(report_html(run));
  const auto values = [&all](const std::string& title, const std::string& css) {
    for (const test::Drawing& one : all) {
      if (one.title != title) continue;
      const test::Axis x = x_axis(one), y = y_axis(one);
      std::vector<test::Point> points;
      for (const auto& stroke : one.path(css)->strokes)
        for (const auto& [px, py] : stroke) points.emplace_back(x.at(px), y.at(py));
      return points;
    }
    ADD_FAILURE() << "no chart " << title;
    return std::vector<test::Point>();
  };
  const auto expect = [&](const std::string& title, const std::string& css, double slack,
                          const auto& value, size_t first = 1) {
    const std::vector<test::Point> found = values(title, css);
    ASSERT_EQ(found.size(), run.records.size() - first) << title;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i].first, static_cast<double>(run.records[i + first].step), 20) << title;
      EXPECT_NEAR(found[i].second, value(run.records[i + first]), slack) << title;
    }
  };
  expect("Loss", "s1 faint", 0.02, [](const Record& r) { return r.loss; });
  expect(
      "Loss", "s8", 0.02, [](const Record& r) { return *r.validation_loss; }, 0);
  expect("Gradient norm, before clipping", "s1", 0.1,
         [](const Record& r) { return r.gradient_norm; });
  expect("Learning rate", "s1", 2e-5, [](const Record& r) { return r.lr; });
  expect("Loss scale", "s1", 0.02, [](const Record& r) { return std::log2(r.scale); });
  expect("Throughput", "s1", 4, [](const Record& r) { return r.tokens_per_second; });
  // Speeds are compared from zero on; the axis of "Throughput" ends there.
  EXPECT_NEAR(values("Throughput", "axis").at(1).second, 0, 4);
  EXPECT_GT(values("Loss", "axis").at(1).second, 0.5);
  // Means of three, of one at the ends.
  const std::vector<test::Point> means = values("Loss", "s1");
  ASSERT_EQ(means.size(), 4u);
  EXPECT_NEAR(means[0].second, 4.5, 0.02);
  EXPECT_NEAR(means[1].second, (4.5 + 3.25 + 2.125) / 3, 0.02);
  EXPECT_NEAR(means[2].second, (3.25 + 2.125 + 2.5) / 3, 0.02);
  const auto memory = std::find_if(all.begin(), all.end(), [](const test::Drawing& one) {
    return one.title == "Memory at its peak, by category";
  });
  ASSERT_NE(memory, all.end());
  ASSERT_EQ(memory->areas.size(), static_cast<size_t>(memory::category_count));
  for (size_t i = 0; i < memory->areas.size(); ++i) {
    EXPECT_NEAR(memory->areas[i].width / memory->areas[0].width, static_cast<double>(i + 1), 0.1);
    EXPECT_EQ(memory->contents("label")[i], memory::name(static_cast<memory::Category>(i)));
    EXPECT_EQ(memory->contents("tick")[i], std::to_string(i + 1) + ".0 MB");
  }
  RunSummary other = run;
  other.config.precision.matmul = Precision::bf16;
  EXPECT_THAT(report_html(other), Not(HasSubstr("Loss scale")));
}

TEST(Report, RanksComputeWaitAndSend) {
  RunSummary run = distinct_run();
  run.ranks = {{.seconds = 100, .waited = 12.34, .sent = 5e6},
               {.seconds = 500, .waited = 250, .sent = 7e3}};
  const std::vector<test::Rows> tables = test::tables_of(report_html(run));
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0], (test::Rows{{"rank", "computed", "waited", "of its time", "sent"},
                                   {"0", "87.7 s", "12.3 s", "12.3%", "5.0 MB"},
                                   {"1", "4 min 10 s", "4 min 10 s", "50.0%", "7.0 kB"}}));
  run.ranks = {{}};
  EXPECT_EQ(test::tables_of(report_html(run))[0][1],
            (std::vector<std::string>{"0", "0.0 s", "0.0 s", "0.0%", "0 B"}));
}

TEST(Report, MovesNameTheRecipeOfEachMatmul) {
  RunSummary run = distinct_run();
  run.config.precision.automatic = true;
  run.moves.layers = {
      {.module = "up", .step = 4, .harm = 0.985, .forward = true, .dgrad = false, .wgrad = false},
      {.module = "down",
       .step = 9,
       .harm = 0.25,
       .moved_to = amp::recipes::row(),
       .forward = false,
       .dgrad = true,
       .wgrad = true}};
  run.config.precision.recipe.name = "own";
  const std::vector<test::Rows> tables = test::tables_of(report_html(run));
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(
      tables[0],
      (test::Rows{{"step", "layer", "forward", "dgrad", "wgrad", "lost by the run&#39;s recipe"},
                  {"4", "up", "bf16", "own", "own", "98%"},
                  {"9", "down", "row", "bf16", "bf16", "25%"}}));
}

TEST(Report, TheBestValidationIsFinite) {
  RunSummary run = sample_run();
  run.records[0].validation_loss = std::nan("");
  run.records[10].validation_loss = 1.25;
  run.records[20].validation_loss = 2.5;
  const std::string html = report_html(run);
  EXPECT_THAT(html, HasSubstr("at step 10"));
  EXPECT_THAT(html, HasSubstr("1.2500"));
}

// 20 steps of 8 micro-batches of 2 x 16 tokens in 20 s.
TEST(Report, TokensPerSecondAreTheMeanOverAllMicroBatches) {
  RunSummary run = sample_run();
  run.config.train.accumulate = 8;
  run.config.train.batch = 2;
  run.config.model.context = 16;
  run.records.back().tokens_per_second = 7777;  // of the last seconds alone
  run.full_speed = 1024;
  const std::string html = report_html(run);
  EXPECT_THAT(html, HasSubstr("256"));
  EXPECT_THAT(html, HasSubstr("25% of peak"));
  run.name = "a run";
  const std::string compared = comparison_html({run, run});
  EXPECT_THAT(compared, HasSubstr("<td>256</td>"));
  EXPECT_THAT(compared, Not(HasSubstr("<td>7,777</td>")));
}

TEST(Report, BitsPerByteAreLossesInAnotherUnit) {
  RunSummary run = sample_run();
  // ln 2 nats are a bit; two bytes per token.
  EXPECT_DOUBLE_EQ(*run.bits_per_byte(std::log(2)), 0.5);
  run.bytes_per_token = 0;
  EXPECT_FALSE(run.bits_per_byte(1));
}

TEST(Report, LinksToThePageOfItsLayers) {
  const testing::TemporaryFolder folder;
  RunSummary run = sample_run();
  EXPECT_THAT(report_html(run), Not(HasSubstr("layers.html")));
  run.layers = {.modules = {"blocks.0.mlp.up"}, .steps = {1}, .layers = {{LayerHistory::Layer{}}}};
  write_report(run, folder / "report.html");
  EXPECT_THAT(testing::content_of(folder / "report.html"), HasSubstr("href=\"layers.html\""));
  EXPECT_THAT(testing::content_of(folder / "layers.html"), HasSubstr("blocks.0.mlp.up"));
}

TEST(Report, ListsTheMovesOfAutoPrecision) {
  RunSummary run = sample_run();
  EXPECT_THAT(report_html(run), Not(HasSubstr("Precision of layers")));
  run.config.precision.automatic = true;
  EXPECT_THAT(report_html(run), HasSubstr("No layer moved"));
  run.moves.layers = {{.module = "blocks.0.mlp.up",
                       .step = 4,
                       .harm = 0.98,
                       .moved_to = amp::recipes::row(),
                       .forward = false,
                       .dgrad = true,
                       .wgrad = false}};
  const std::string html = report_html(run);
  for (const char* part : {"blocks.0.mlp.up", ">row<", ">bf16<", ">98%<"})
    EXPECT_THAT(html, HasSubstr(part));
}

TEST(Report, ComparesAutoPrecisionWithItsBaselines) {
  const testing::TemporaryFolder folder;
  RunSummary run = sample_run();
  EXPECT_THAT(report_html(run), Not(HasSubstr("plain FP8")));
  run.config.precision.automatic = true;
  EXPECT_THAT(report_html(run), HasSubstr("--resume --baselines"));
  const double losses[] = {2.0, 2.5};
  const char* names[] = {"bf16", "fp8"};
  for (int i = 0; i < 2; ++i) {
    RunSummary baseline = sample_run();
    baseline.name = names[i];
    baseline.config.precision.matmul = parse_precision(names[i]);
    baseline.records.back().validation_loss = losses[i];
    run.baselines.push_back(baseline);
  }
  run.config.precision.matmul = Precision::quantized;
  run.records.back().validation_loss = 2.01;
  write_report(run, folder / "report.html");
  const std::string html = testing::content_of(folder / "report.html");
  for (const char* part : {">2.0100<", ">+0.50%<", ">+25.00%<", "href=\"baselines.html\""})
    EXPECT_THAT(html, HasSubstr(part));
  EXPECT_THAT(testing::content_of(folder / "baselines.html"), HasSubstr("fp8, auto-precision"));
  const std::string text = baselines_text(run);
  for (const char* part : {"fp8, auto-precision", "2.0100", "+0.50%", "+25.00%"})
    EXPECT_THAT(text, HasSubstr(part));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Report, ARunWithoutStepsHasOne) { EXPECT_THAT(report_html({}), HasSubstr("</html>")); }

}  // namespace
}  // namespace binade::train
