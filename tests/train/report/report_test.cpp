#include "binade/train/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "binade/train/report/chart.h"
#include "binade/train/report/run_comparison.h"
#include "io/temporary_folder.h"
#include "support/pages.h"
#include "train/report/drawing.h"
#include "train/report/page_content.h"

namespace binade::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Chart, TicksAreRoundNumbersInside) {
  EXPECT_THAT(ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(ticks(0.7, 2.9, 5), ElementsAre(1, 1.5, 2, 2.5));
  EXPECT_THAT(ticks(-1, 1, 2), ElementsAre(-1, 0, 1));
  EXPECT_THAT(ticks(3, 3, 5), ElementsAre());
}

TEST(Chart, GapsWherePointsAreNotFinite) {
  const std::string svg =
      line_chart({"t", "x", "y"}, {{"s", {{1, 1}, {2, std::nan("")}, {3, 2}, {4, INFINITY}}}});
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_EQ(line_chart({"t", "x", "y"}, {{"s", {{1, std::nan("")}}}}), "");
}

TEST(Chart, OnePointAndConstantsHaveRoom) {
  const std::string svg = line_chart({"t", "x", "y"}, {{"s", {{5, 0}, {5, 0}}}});
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Chart, ThinningKeepsSpikes) {
  Series series{"s", {}};
  for (int i = 0; i < 100'000; ++i) series.points.emplace_back(i, i == 54'321 ? 100.0 : 1.0);
  const std::string svg = line_chart({"t", "x", "y"}, {series});
  EXPECT_LT(svg.size(), 40'000u);
  EXPECT_THAT(svg, HasSubstr(" 14.0L"));  // the top of the frame
}

TEST(Chart, ManyNamesTakeSeveralRowsAndTheFrameMakesRoom) {
  std::vector<Series> series;
  for (int i = 0; i < 10; ++i)
    series.push_back({"runs/a-rather-long-name-" + std::to_string(i), {{0, 0}, {1, 1.0 + i}}});
  const std::string svg = line_chart({"t", "x", "y"}, series);
  EXPECT_THAT(svg, HasSubstr("class=\"s7\""));
  EXPECT_THAT(svg, HasSubstr("class=\"s1 d1\""));
  EXPECT_THAT(svg, HasSubstr("y=\"207.0\""));  // the tenth row: each name fills one
  EXPECT_THAT(line_chart({"t", "x", "y"}, {series[0]}),
              Not(HasSubstr("rather-long-name-0</text>")));
}

TEST(Chart, AnAxisMayBeginAtZero) {
  const std::vector<Series> series = {{"s", {{0, 900}, {1, 1000}}}};
  EXPECT_THAT(line_chart({.title = "t", .x_label = "x", .y_label = "y"}, series),
              Not(HasSubstr(">0</text><line")));
  // 0 is a tick of y: its grid line follows the text of none or another.
  const std::string svg =
      line_chart({.title = "t", .x_label = "x", .y_label = "y", .from_zero = true}, series);
  EXPECT_THAT(svg, HasSubstr("y=\"240.0\">0</text>"));  // at the bottom
}

TEST(Chart, LongNumbersLeaveRoomForTheLabel) {
  // The label's letters end at 20; numbers end 6 before the axis.
  const auto axis_of = [](double top) {
    const std::string svg = line_chart({"t", "x", "y"}, {{"s", {{0, 0}, {1, top}}}});
    const std::string begin = "class=\"axis\" d=\"M";
    return std::stod(svg.substr(svg.find(begin) + begin.size()));
  };
  const double width = 8.3;                             // of a letter on narrow screens
  EXPECT_GE(axis_of(3), 20 + 6 + 3 * width);            // "2.5"
  EXPECT_GE(axis_of(0.00061), 20 + 6 + 4 * width);      // "6e-4"
  EXPECT_GE(axis_of(0.0021), 20 + 6 + 6 * width);       // "0.0015"
  EXPECT_GE(axis_of(123'456'000), 20 + 6 + 4 * width);  // "100M"
  EXPECT_EQ(tick_text(0.0005), "5e-4");
  EXPECT_EQ(tick_text(0.00025), "2.5e-4");
  EXPECT_EQ(tick_text(-0.0001), "-1e-4");
  EXPECT_EQ(tick_text(0.001), "0.001");
  EXPECT_EQ(tick_text(0), "0");
}

TEST(Chart, EqualLinesAreToldApart) {
  const Series a{"first", {{0, 1}, {1, 2}, {2, 0}}}, b{"second", a.points},
      c{"third", {{0, 1}, {1, 2.5}, {2, 0}}};
  const std::string svg = line_chart({"t", "x", "y"}, {a, b, c});
  EXPECT_THAT(svg, HasSubstr(">first</text>"));
  EXPECT_THAT(svg, HasSubstr(">second</text>"));
  EXPECT_THAT(svg, HasSubstr(">1 dashed line lies on another</text>"));
  EXPECT_THAT(svg, HasSubstr("<path class=\"s1 d1\""));
  EXPECT_THAT(svg, HasSubstr(">third</text>"));
  EXPECT_THAT(svg, HasSubstr("<path class=\"s2\""));
  EXPECT_THAT(line_chart({"t", "x", "y"}, {a, c}), Not(HasSubstr("dashed")));
}

TEST(Chart, ALegendSaysWhichSeriesHasNoValues) {
  const std::string svg = line_chart(
      {"t", "x", "y"}, {{"some", {{0, 1}, {1, 2}}}, {"none", {{0, NAN}, {1, INFINITY}}}});
  EXPECT_THAT(svg, HasSubstr(">none (no values)</text>"));
  EXPECT_THAT(svg, HasSubstr(">some</text>"));
}

TEST(Chart, TextIsEscapedForPages) {
  EXPECT_EQ(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escaped("a\u202eb\u009b\n\tc\u00e9"), "a\\xe2\\x80\\xaeb\\xc2\\x9b\n\tc\u00e9");
}

TEST(Chart, SmoothingKeepsStraightLines) {
  Series line{"s", {}};
  for (int i = 0; i < 50; ++i) line.points.emplace_back(i, 2.0 * i);
  EXPECT_EQ(smoothed(line, 5).points, line.points);
  // The mean of three, one at the ends.
  const Series bumps{"s", {{0, 0}, {1, 3}, {2, 0}, {3, 3}}},
      means{"s", {{0, 0}, {1, 1}, {2, 2}, {3, 3}}};
  EXPECT_EQ(smoothed(bumps, 4).points, means.points);
}

TEST(Chart, ARobustLimitIgnoresFewSpikes) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100; ++i) points.emplace_back(i, 1 + i % 3);
  EXPECT_EQ(robust_limit(points), INFINITY);
  points[50].second = 1000;
  EXPECT_EQ(robust_limit(points), 4.5);  // 1.5 times the usual maximum
  const std::string svg =
      line_chart({.title = "t", .x_label = "x", .y_label = "y", .y_max = robust_limit(points)},
                 {{"s", points}});
  EXPECT_THAT(svg, HasSubstr("1 higher, up to 1e+03"));
}

TEST(Chart, NumbersAreReadable) {
  EXPECT_EQ(tick_text(0.25), "0.25");
  EXPECT_EQ(tick_text(1500), "1500");
  EXPECT_EQ(tick_text(20000), "20k");
  EXPECT_EQ(tick_text(-1.5e6), "-1.5M");
}

// Every page has one color per format, whatever the name of the precision that uses it.
TEST(Chart, FormatsHaveOneColorEach) {
  const std::vector<std::vector<const char*>> formats = {
      {"f32", "fp32"},
      {"f16", "fp16", "fp16-noscale"},
      {"bf16"},
      {"tf32"},
      {"e4m3", "fp8", "fp8-delayed", "fp8-current", "fp8-row", "fp8-block", "fp8-mx"},
      {"e5m2"},
      {"e4m3fnuz"},
      {"e2m1"}};
  std::set<int> colors;
  for (const auto& names : formats) {
    for (const char* name : names)
      EXPECT_EQ(format_style(name).color, format_style(names[0]).color) << name;
    colors.insert(format_style(names[0]).color);
  }
  EXPECT_EQ(colors.size(), formats.size());
  EXPECT_EQ(colors.count(Style::by_position), 0u);
  EXPECT_EQ(format_style("loss").color, Style::by_position);
}

TEST(Chart, ABandIsNamedAndShaded) {
  const std::string svg = line_chart({.title = "t",
                                      .x_label = "x",
                                      .y_label = "y",
                                      .band = Band{"noise", {{0, -1, 1}, {1, -1, 1}}}},
                                     {{"s", {{0, 0}, {1, 0.5}}}});
  EXPECT_THAT(svg, HasSubstr("class=\"band\" d=\"M"));
  EXPECT_THAT(svg, HasSubstr(">noise<"));
}

RunSummary summary() {
  RunSummary run;
  run.parameters = 1234;
  run.sample = "if (a < b && c) return \"<script>\";";
  run.config.precision.matmul = Precision::fp16;
  for (int64_t i = 0; i <= 20; ++i) {
    Record r{.step = i,
             .loss = 5.0 / static_cast<double>(i + 1),
             .lr = 1e-3,
             .gradient_norm = 1,
             .scale = 65536,
             .tokens_per_second = 1000,
             .memory = 1'000'000,
             .seconds = static_cast<double>(i)};
    if (i % 10 == 0) r.validation_loss = r.loss;
    run.records.push_back(r);
  }
  run.memory.at_peak[0] = 500'000;
  // 20 steps of the default batch in 20 s.
  run.full_speed = 4 * static_cast<double>(run.config.train.batch * run.config.model.context);
  run.bytes_per_token = 2;
  run.origin = {.date = "2026-01-02 03:04 UTC",
                .version = "0.9.9",
                .command = "binade train --x",
                .machine = "Some CPU"};
  return run;
}

TEST(Report, IsSelfContainedAndEscaped) {
  const std::string html = report_html(summary());
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
  RunSummary run = summary();
  run.is_running = true;
  const std::string html = report_html(run);
  EXPECT_THAT(html, HasSubstr("<meta http-equiv=\"refresh\" content=\""));
  EXPECT_THAT(html, HasSubstr("still running"));
}

// A run whose numbers all differ, so that no two can stand for each other.
RunSummary distinct() {
  RunSummary run;
  run.name = "runs/a";
  run.parameters = 7'654'321;
  run.config.precision.matmul = Precision::fp16;
  run.config.model.family = ModelFamily::gpt2;
  run.config.model.layers = 3, run.config.model.width = 48, run.config.model.heads = 6,
  run.config.model.context = 24;
  run.config.train.accumulate = 5, run.config.train.batch = 7, run.config.train.steps = 4000;
  run.config.data.source = "some/text.txt";
  const double losses[] = {0, 4.5, 3.25, 2.125, 2.5};
  const double validations[] = {5.5, 4.75, 2.25, 1.5, 1.75};
  for (int64_t i = 0; i <= 4; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto x = static_cast<double>(i);
    run.records.push_back({.step = 1000 * i,
                           .loss = losses[at],
                           .validation_loss = validations[at],
                           .lr = 1e-3 * (5 - x),
                           .gradient_norm = 2 + x * x,
                           .scale = std::ldexp(1.0, static_cast<int>(10 + i)),
                           .skipped = 3 * i,
                           .tokens_per_second = 500 + 100 * x,
                           .memory = 2'000'000 + 1'000'000 * i,
                           .seconds = 210 * x,
                           .tokens = 840'000 * i});
  }
  for (size_t i = 0; i < run.memory.at_peak.size(); ++i)
    run.memory.at_peak[i] = static_cast<int64_t>(1'000'000 * (i + 1));
  run.full_speed = 10'000;
  run.bytes_per_token = 4;
  return run;
}

TEST(Report, TilesAreTheRunsNumbers) {
  RunSummary run = distinct();
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
  const RunSummary run = distinct();
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
  RunSummary run = distinct();
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
  RunSummary run = distinct();
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

TEST(RunComparison, RowsAreTheRunsNumbers) {
  RunSummary one = distinct(), two = distinct();
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
  RunSummary one = distinct(), two = distinct();
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

TEST(Report, TheBestValidationIsFinite) {
  RunSummary run = summary();
  run.records[0].validation_loss = std::nan("");
  run.records[10].validation_loss = 1.25;
  run.records[20].validation_loss = 2.5;
  const std::string html = report_html(run);
  EXPECT_THAT(html, HasSubstr("at step 10"));
  EXPECT_THAT(html, HasSubstr("1.2500"));
}

// 20 steps of 8 micro-batches of 2 x 16 tokens in 20 s.
TEST(Report, TokensPerSecondAreTheMeanOverAllMicroBatches) {
  RunSummary run = summary();
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

// Runs of one precision are told apart by position, others by the color of their format.
TEST(Report, EveryRunIsInEveryChartOfAComparison) {
  const auto count = [](const std::string& text, const std::string& part) {
    int64_t found = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  RunSummary one = summary(), two = summary(), three = summary();
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

TEST(Report, BitsPerByteAreLossesInAnotherUnit) {
  RunSummary run = summary();
  // ln 2 nats are a bit; two bytes per token.
  EXPECT_DOUBLE_EQ(*run.bits_per_byte(std::log(2)), 0.5);
  run.bytes_per_token = 0;
  EXPECT_FALSE(run.bits_per_byte(1));
}

TEST(Report, LinksToThePageOfItsLayers) {
  const testing::TemporaryFolder folder;
  RunSummary run = summary();
  EXPECT_THAT(report_html(run), Not(HasSubstr("layers.html")));
  run.layers = {.modules = {"blocks.0.mlp.up"}, .steps = {1}, .layers = {{LayerHistory::Layer{}}}};
  write_report(run, folder / "report.html");
  EXPECT_THAT(testing::content_of(folder / "report.html"), HasSubstr("href=\"layers.html\""));
  EXPECT_THAT(testing::content_of(folder / "layers.html"), HasSubstr("blocks.0.mlp.up"));
}

TEST(Report, ListsTheMovesOfAutoPrecision) {
  RunSummary run = summary();
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
  RunSummary run = summary();
  EXPECT_THAT(report_html(run), Not(HasSubstr("plain FP8")));
  run.config.precision.automatic = true;
  EXPECT_THAT(report_html(run), HasSubstr("--resume --baselines"));
  const double losses[] = {2.0, 2.5};
  const char* names[] = {"bf16", "fp8"};
  for (int i = 0; i < 2; ++i) {
    RunSummary baseline = summary();
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

TEST(RunComparison, LossesOfBytesArePerByte) {
  RunSummary run = summary();
  EXPECT_THAT(comparison_html({run, run}), HasSubstr("nats per token"));
  run.bytes_per_token = 1;
  EXPECT_THAT(comparison_html({run, run}), HasSubstr("nats per byte"));
  EXPECT_THAT(comparison_html({run, run}), Not(HasSubstr("nats per token")));
}

TEST(RunComparison, BaselinesHaveNoNegativeZero) {
  RunSummary run = summary();
  run.config.precision.automatic = true;
  RunSummary bf16 = summary();
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
