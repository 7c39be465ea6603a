#include "binade/train/run/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <sstream>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "io/system_calls.h"
#include "io/temporary_folder.h"
#include "support/values.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;

Record sample(int64_t step) {
  Record r{.step = step,
           .loss = 1.0 / 3,
           .lr = 1e-3,
           .gradient_norm = 0.1,
           .scale = 65536,
           .skipped = 1,
           .tokens_per_second = 1000.5,
           .memory = 1 << 20,
           .seconds = 1.25,
           .tokens = 1000 * step};
  if (step % 2 == 0) r.validation_loss = 2.0 / 3;
  if (step > 2) r.joules_per_token = 1.0 / 7;
  if (step > 2) r.preferences = {0.1, -0.2, 0.75, -12.5, -1.0 / 3};
  if (step == 4) r.validation_preferences = {0.3, 0.4, 0.25, -8, -9};
  return r;
}

TEST(Metrics, FilesHoldWhatWasAdded) {
  const testing::TemporaryFolder folder;
  MetricsLog log(folder.path(), 0);
  std::vector<Record> added;
  for (int64_t step = 1; step <= 4; ++step) {
    added.push_back(sample(step));
    log.add(added.back());
  }
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl"), added);
  EXPECT_EQ(log.losses().first, 2.0 / 3);
  EXPECT_EQ(log.seconds(), 1.25);
  std::istringstream lines(testing::content_of(folder / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    EXPECT_EQ(json::parse(line, {}).root().at("loss").number(), 1.0 / 3);
  const json::Document last = json::parse(to_json(sample(4)), {});
  EXPECT_NEAR(last.root().at("preferences").at("margin").number(), 0.3, 1e-15);
  EXPECT_EQ(last.root().at("preferences").at("accuracy").number(), 0.75);
  EXPECT_EQ(last.root().at("validation_preferences").at("rejected_log_prob").number(), -9);
  std::istringstream csv(testing::content_of(folder / "metrics.csv"));
  std::vector<std::string> rows;
  for (std::string line; std::getline(csv, line);) rows.push_back(line);
  ASSERT_EQ(rows.size(), 5u);
  for (const std::string& row : rows) EXPECT_EQ(std::count(row.begin(), row.end(), ','), 11) << row;
  EXPECT_THAT(
      rows[4],
      ::testing::StartsWith(
          "4,0.3333333333333333,0.6666666666666666,0.001,0.1,65536,1,1,1000.5,1048576,1.25"));
  EXPECT_THAT(rows[0], ::testing::EndsWith(",seconds,tokens"));
  EXPECT_THAT(rows[4], ::testing::EndsWith(",4000"));
  EXPECT_EQ(log.tokens(), 4000);
}

// The run ends with this failure, after a checkpoint that includes the step.
TEST(Metrics, AFailedWriteEndsTheRunAndLosesNoRecord) {
  const testing::TemporaryFolder folder;
  MetricsLog log(folder.path(), 0);
  log.add(sample(1));
  {
    testing::SystemCalls calls;
    calls.fail_at(0, EIO);
    EXPECT_THAT(test::error_of([&] { log.add(sample(2)); }), HasSubstr("Input/output error"));
  }
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl"), (std::vector<Record>{sample(1), sample(2)}));
  const MetricsLog resumed(folder.path(), 2);
  const std::string csv = testing::content_of(folder / "metrics.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
}

// A digit that changed is a number, too: only the checksum tells.
TEST(Metrics, AFlippedDigitIsDamageAndKeptAside) {
  const testing::TemporaryFolder folder;
  {
    MetricsLog log(folder.path(), 0);
    for (int64_t step = 1; step <= 3; ++step) log.add(sample(step));
  }
  std::string text = testing::content_of(folder / "metrics.jsonl");
  const size_t digit = text.find("0.1,", text.find("\"step\":2")) + 2;
  text[digit] = '9';
  folder.put("metrics.jsonl", text);
  const MetricsLog log(folder.path(), 3);
  EXPECT_THAT(log.warning(),
              ::testing::AllOf(HasSubstr("metrics.jsonl.damaged"), HasSubstr("checksum")));
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl"), (std::vector<Record>{sample(1), sample(3)}));
  EXPECT_THAT(testing::content_of(folder / "metrics.jsonl.damaged"), HasSubstr("\"step\":2"));
  // Steps that are gone without a trace are told, too.
  folder.put("metrics.jsonl", text.substr(0, text.find('\n') + 1));
  EXPECT_THAT(MetricsLog(folder.path(), 3).warning(), HasSubstr("lacks 2 of the 3 steps"));
}

TEST(Metrics, NumbersThatAreNotFiniteAreNull) {
  Record r = sample(1);
  r.loss = std::nan("");
  r.gradient_norm = std::numeric_limits<double>::infinity();
  const json::Document parsed = json::parse(to_json(r), {});
  EXPECT_TRUE(parsed.root().at("loss").is_null());
  EXPECT_TRUE(parsed.root().at("gradient_norm").is_null());
}

TEST(Metrics, TheBestValidationIsFinite) {
  const testing::TemporaryFolder folder;
  MetricsLog log(folder.path(), 0);
  const auto add = [&](int64_t step, double loss) {
    Record record = sample(step);
    record.validation_loss = loss;
    log.add(record);
  };
  add(0, 0.5);  // the untrained model
  EXPECT_FALSE(log.losses().best);
  add(1, std::nan(""));
  EXPECT_FALSE(log.losses().best);
  EXPECT_EQ(log.losses().validations_since_best, 1);
  add(2, 3);
  EXPECT_EQ(log.losses().best_step, 2);
  EXPECT_EQ(log.losses().validations_since_best, 0);
  add(3, 3);
  add(4, std::nan(""));
  EXPECT_EQ(log.losses().best_step, 2);
  EXPECT_EQ(log.losses().validations_since_best, 2);
  add(5, 2);
  EXPECT_EQ(log.losses().best_step, 5);
  EXPECT_EQ(*log.losses().best, 2);
  EXPECT_EQ(*log.losses().first, 0.5);
  EXPECT_EQ(*log.losses().last, 2);
}

TEST(Metrics, OpeningForResumeDropsLaterSteps) {
  const testing::TemporaryFolder folder;
  {
    MetricsLog log(folder.path(), 0);
    for (int64_t step = 1; step <= 5; ++step) log.add(sample(step));
  }
  MetricsLog log(folder.path(), 3);
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl").size(), 3u);
  EXPECT_EQ(log.losses().last, 2.0 / 3);
  EXPECT_EQ(log.warning(), "");
  log.add(sample(4));
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl").size(), 4u);
  EXPECT_EQ(testing::content_of(folder / "metrics.csv").find("\n5,"), std::string::npos);
}

// A log of more than one part of the memory that it is copied through.
TEST(Metrics, OpeningALongLogForResumeKeepsEachLineOnce) {
  const testing::TemporaryFolder folder;
  std::string log;
  int64_t steps = 0;
  while (log.size() < (5 << 19)) log += to_json(sample(++steps)) + "\n";
  folder.put("metrics.jsonl", log);
  const MetricsLog opened(folder.path(), steps);
  EXPECT_TRUE(testing::content_of(folder / "metrics.jsonl") == log);
  EXPECT_EQ(opened.warning(), "");
  std::istringstream csv(testing::content_of(folder / "metrics.csv"));
  int64_t row = 0;
  std::string line;
  for (std::getline(csv, line); std::getline(csv, line);)
    EXPECT_EQ(line.substr(0, line.find(',')), std::to_string(++row));
  EXPECT_EQ(row, steps);
}

TEST(Metrics, ALineThatWasCutShortIsPassedOver) {
  const testing::TemporaryFolder folder;
  const std::string line = to_json(sample(1));
  folder.put("metrics.jsonl", line + "\n" + line.substr(0, 20));
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl").size(), 1u);
  folder.put("metrics.jsonl", line.substr(0, 20) + "\n" + line + "\n");
  try {
    read_metrics(folder / "metrics.jsonl");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("metrics.jsonl"));
  }
}

TEST(Metrics, OpeningForResumeCutsDamagedLines) {
  const testing::TemporaryFolder folder;
  const std::string first = to_json(sample(1)) + "\n", third = to_json(sample(3)) + "\n";
  for (const std::string& damage : {std::string("{\"step\":2\n"), std::string(3, '\0') + "\n",
                                    "{\"step\":-1}\n" + std::string("x\n")}) {
    folder.put("metrics.jsonl", first + damage + third + first.substr(0, 9));
    const MetricsLog log(folder.path(), 3);
    EXPECT_EQ(testing::content_of(folder / "metrics.jsonl"), first + third);
    const bool one = std::count(damage.begin(), damage.end(), '\n') == 1;
    EXPECT_THAT(
        log.warning(),
        ::testing::StartsWith(std::string(one ? "1 damaged line was" : "2 damaged lines were") +
                              " moved from metrics.jsonl to metrics.jsonl.damaged: "));
    int64_t damaged = -1;
    EXPECT_EQ(read_metrics(folder / "metrics.jsonl", &damaged).size(), 2u);
    EXPECT_EQ(damaged, 0);
  }
}

// One line is read at a time: a report of a run is as long as its log, but a log is not kept.
TEST(Metrics, LeavesOutDamagedLinesAndCountsThem) {
  const testing::TemporaryFolder folder;
  const std::string line = to_json(sample(1)) + "\n";
  folder.put("metrics.jsonl", line + "damage\n" + line + "\n" + line);
  int64_t damaged = 0;
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl", &damaged).size(), 3u);
  EXPECT_EQ(damaged, 2);
}

}  // namespace
}  // namespace binade::train
