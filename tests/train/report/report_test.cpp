#include "binade/train/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/train/report/chart.h"

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
  EXPECT_THAT(svg, HasSubstr("class=\"s1 again\""));
  EXPECT_THAT(svg, HasSubstr("y=\"198\""));  // the tenth row: each name fills one
  EXPECT_THAT(line_chart({"t", "x", "y"}, {series[0]}), Not(HasSubstr("rather-long")));
}

RunSummary summary() {
  RunSummary run;
  run.parameters = 1234;
  run.sample = "if (a < b && c) return \"<script>\";";
  run.config.precision = Precision::fp16;
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
  run.full_speed = 4000;
  return run;
}

TEST(Report, IsSelfContainedAndEscaped) {
  const std::string html = report_html(summary());
  for (const char* part :
       {"<!doctype html>", "viewport", "prefers-color-scheme: dark", "Loss scale", "Gradient norm",
        "Throughput", "Memory at its peak", "parameters", "Share of peak", "nats per token",
        "validation", "[precision]", "1234"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  for (const char* part : {"http:", "https:", "<script", "nan", "src="})
    EXPECT_THAT(html, Not(HasSubstr(part)));
  EXPECT_THAT(html, HasSubstr("a &lt; b &amp;&amp; c"));
}

TEST(Report, ARunWithoutStepsHasOne) { EXPECT_THAT(report_html({}), HasSubstr("</html>")); }

}  // namespace
}  // namespace binade::train
