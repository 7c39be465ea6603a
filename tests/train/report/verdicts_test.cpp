#include "binade/train/report/verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* two_entries =
    "watch, step 5: divergence: the loss is 102.7 after 5.58; lower --lr\n"
    "doctor, step 12: first non-finite value: inf at [0, 5] of <cast> input 1\n"
    "  op linear in blocks.1.mlp.up, forward\n"
    "  verdict: range; the same micro-batch is finite in f32\n";

TEST(Verdicts, AreReadFromTheFile) {
  const std::vector<DoctorEntry> verdicts = read_verdicts(two_entries);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].step, "5");
  EXPECT_EQ(verdicts[0].name, "divergence");
  EXPECT_EQ(verdicts[0].text,
            "watch, step 5: divergence: the loss is 102.7 after 5.58; lower --lr\n");
  EXPECT_EQ(verdicts[1].step, "12");
  EXPECT_EQ(verdicts[1].name, "range");
  EXPECT_THAT(verdicts[1].text, HasSubstr("blocks.1.mlp.up"));
}

TEST(Verdicts, OthersAreNoEntries) {
  EXPECT_TRUE(read_verdicts("").empty());
  EXPECT_TRUE(read_verdicts("doctor, step x: a\nwatch, step 3\nsomething else").empty());
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "watch, step 1: a: b\n";
  EXPECT_EQ(read_verdicts(many).size(), 40u);
}

RunSummary short_run(double last_loss) {
  RunSummary run;
  for (int64_t step = 1; step <= 3; ++step)
    run.records.push_back({.step = step, .loss = step == 3 ? last_loss : 5.5, .gradient_norm = 1});
  return run;
}

TEST(Verdicts, StandInTheReportWithTheirCharts) {
  RunSummary run = short_run(5.4);
  EXPECT_EQ(verdict_section(run), "");
  EXPECT_THAT(report_html(run), Not(HasSubstr("id=\"verdicts\"")));
  run.diagnoses = two_entries;
  run.config.precision.matmul = Precision::fp16;
  const std::string html = report_html(run);
  EXPECT_THAT(html, HasSubstr("Step 5: divergence"));
  EXPECT_THAT(html, HasSubstr("href=\"#loss\""));
  EXPECT_THAT(html, HasSubstr("<figure id=\"loss\">"));
  EXPECT_THAT(html, HasSubstr("href=\"#loss-scale\""));
  EXPECT_THAT(html, HasSubstr("<figure id=\"loss-scale\">"));
  EXPECT_THAT(html, HasSubstr("&lt;cast&gt;"));
  EXPECT_LT(html.find("What was noticed"), html.find("<figure"));
  EXPECT_THAT(html, Not(HasSubstr("The run has failed")));
}

TEST(Verdicts, SayThatTheRunHasFailed) {
  EXPECT_THAT(verdict_section(short_run(400)), HasSubstr("The run has failed: the loss is 400"));
  EXPECT_THAT(verdict_section(short_run(400)), HasSubstr("What went wrong"));
  EXPECT_THAT(verdict_section(short_run(NAN)), HasSubstr("The run has failed"));
  RunSummary run = short_run(5.4);
  run.records.back().validation_loss = NAN;
  EXPECT_THAT(verdict_section(run), HasSubstr("the validation loss is not finite"));
}

}  // namespace
}  // namespace binade::train
