#include "binade/train/report/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/train/report/run_comparison.h"
#include "binade/train/run/loop.h"
#include "binade/version.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "support/pages.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using testing::content_of;
using ::testing::HasSubstr;
using ::testing::Not;

class Summary : public ::testing::Test {
 protected:
  std::filesystem::path trained(const std::string& name, const std::string& precision = "fp32",
                                int64_t batch = 2) {
    Config config = small_config(precision);
    config.data.source = folder_.put("text.txt", small_text()).string();
    config.run.out = (folder_ / name).string();
    config.train.batch = batch;
    run(config, Progress::Mode::quiet);
    return folder_ / name;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Summary, TheReportComesOutTheSameFromTheFiles) {
  const auto run = trained("run");
  const std::string written = content_of(run / "report.html");
  EXPECT_THAT(written, HasSubstr("A sample of its text"));
  const RunSummary read = read_run(run);
  EXPECT_EQ(report_html(read), written);
  EXPECT_EQ(read.bytes_per_token, 1);
  EXPECT_THAT(read.origin.command, HasSubstr("test_train"));
  EXPECT_THAT(read.origin.date, HasSubstr(" UTC"));
  EXPECT_EQ(read.origin.version, version());
  EXPECT_THAT(read.origin.machine, HasSubstr("thread"));
  ASSERT_TRUE(read.arrangement);
  EXPECT_THAT(written, HasSubstr("<li>Memory <b>" + describe(*read.arrangement, read.config)));
  EXPECT_THAT(written, HasSubstr("; all activations kept</b>"));
}

TEST_F(Summary, ARunWithoutASummaryIsForecast) {
  const auto run = trained("run");
  const RunSummary whole = read_run(run);
  std::filesystem::remove(run / "summary.json");
  const RunSummary rest = read_run(run);
  EXPECT_EQ(rest.parameters, whole.parameters);
  EXPECT_EQ(rest.memory.at_peak[0], whole.memory.at_peak[0]);
  EXPECT_GT(rest.memory.peak, 0);
  EXPECT_EQ(rest.sample, "");
}

// Of version 0.1.0 before these fields.
TEST_F(Summary, OlderSummariesHaveNoOrigin) {
  const auto run = trained("run");
  std::string text = content_of(run / "summary.json");
  text = text.substr(0, text.rfind(",", text.find("\"bytes_per_token\""))) + "}";
  folder_.put("run/summary.json", text);
  const RunSummary read = read_run(run);
  EXPECT_EQ(read.origin, Provenance{});
  EXPECT_EQ(read.bytes_per_token, 1);  // the configuration says bytes
}

TEST_F(Summary, TokenizersAreComparedInBitsPerByte) {
  std::vector<RunSummary> runs = {read_run(trained("one")), read_run(trained("two"))};
  EXPECT_THAT(comparison_html(runs), Not(HasSubstr(">bits per byte</text>")));
  runs[1].bytes_per_token = 4;
  const std::string html = comparison_html(runs);
  EXPECT_THAT(html, HasSubstr(">bits per byte</text>"));
  EXPECT_THAT(html, HasSubstr("different tokenizers"));
  runs[1].bytes_per_token = 0;
  EXPECT_THAT(comparison_html(runs), HasSubstr("cannot be compared"));
}

TEST_F(Summary, SaysWhatIsMissing) {
  EXPECT_THAT(test::error_of([&] { read_run(folder_ / "none"); }),
              HasSubstr("none: expected a folder"));
  const auto run = trained("run");
  // A report does without a damaged summary, as that of a killed run.
  folder_.put("run/summary.json", R"({"parameters": 1})");
  const RunSummary rest = read_run(run);
  EXPECT_THAT(rest.warnings, ::testing::ElementsAre(HasSubstr("summary.json")));
  EXPECT_GT(rest.parameters, 1);
  EXPECT_GT(rest.memory.peak, 0);
  folder_.put("run/metrics.jsonl", "");
  EXPECT_THAT(test::error_of([&] { read_run(run); }), HasSubstr("at least one step"));
}

TEST_F(Summary, SeveralRunsShareOnePage) {
  const std::vector<RunSummary> runs = {read_run(trained("one")),
                                        read_run(trained("two & more", "bf16"))};
  const std::string html = comparison_html(runs);
  for (const char* part :
       {"<!doctype html>", "viewport", "2 runs", "Validation loss", "Training loss", "Throughput",
        "two &amp; more", "class=\"s2\"", "peak memory", "bf16", ">step<"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(test::outside_references(html), ::testing::IsEmpty());
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

TEST_F(Summary, RunsWithOtherBatchesAreComparedByTokens) {
  const std::string html =
      comparison_html({read_run(trained("one")), read_run(trained("two", "fp32", 3))});
  EXPECT_THAT(html, HasSubstr(">tokens<"));
  EXPECT_THAT(html, Not(HasSubstr(">step<")));
}

}  // namespace
}  // namespace binade::train
