#include "binade/train/run/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/train/checkpoint.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  Config config;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const char* precision : {"fp32", "tf32", "bf16", "fp16", "fp8"})
    result.push_back({precision, small_config(precision)});
  for (const char* precision : {"bf16", "fp16", "fp8"}) {
    Case one{"", small_config(precision)};
    one.name = precision[0] == 'b'   ? "bf16_masters"
               : precision[2] == '1' ? "fp16_masters"
                                     : "fp8_masters";
    one.config.precision.params = ParameterStorage::masters;
    one.config.train.accumulate = 3;
    one.config.train.activations = nn::Activations::recompute();
    result.push_back(one);
  }
  Case split{"bf16_split", small_config("bf16")};
  split.config.precision.params = ParameterStorage::split;
  result.push_back(split);
  Case overflowing{"fp16_overflowing", small_config("fp16")};
  overflowing.config.precision.scale_init = 0x1p40;  // the first steps are skipped
  overflowing.config.train.activations = nn::Activations::recompute();
  result.push_back(overflowing);
  Case current{"fp8_current_llama", small_config("fp8")};
  current.config.precision.recipe = amp::recipes::current();
  current.config.model.family = ModelFamily::llama;
  current.config.precision.moments = DType::bf16;
  result.push_back(current);
  return result;
}

class Resume : public ::testing::TestWithParam<Case> {};

// The bytes of the last checkpoint and the losses of all steps.
std::string outcome(const RunResult& result) {
  std::string all;
  for (const char* file : {"model.safetensors", "trainer.safetensors", "config.json"})
    all += testing::content_of(result.checkpoint / file);
  for (const Record& r : read_metrics(result.folder / "metrics.jsonl")) {
    all += std::to_string(r.step) + " " + std::to_string(r.applied) + std::to_string(r.skipped);
    for (const double value :
         {r.loss, r.validation_loss.value_or(0), r.lr, r.gradient_norm, r.scale})
      all.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return all;
}

// Six steps in one run, and three steps, a checkpoint and three more in a resumed run.
TEST_P(Resume, IsBitForBitTheUninterruptedRun) {
  const testing::TemporaryFolder folder;
  Config config = GetParam().config;
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "straight").string();
  const RunResult straight = run(config, Progress::Mode::quiet);
  ASSERT_EQ(straight.steps, 6);

  config.run.out = (folder / "stopped").string();
  config.run.checkpoint_every = 3;
  run(config, Progress::Mode::quiet);
  // As if the run had been killed after step 5: the last checkpoint is missing.
  fs::remove_all(folder / "stopped/checkpoints/step-6");
  ASSERT_EQ(list_checkpoints(folder / "stopped/checkpoints").back().step, 3);
  config.run.resume = true;
  const RunResult resumed = run(config, Progress::Mode::quiet);
  ASSERT_EQ(resumed.steps, 6);
  EXPECT_TRUE(outcome(straight) == outcome(resumed));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Resume, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Loop, LeavesEverythingInTheRunFolder) {
  const testing::TemporaryFolder folder;
  Config config = small_config("bf16");
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  const RunResult result = run(config, Progress::Mode::quiet);
  for (const char* name : {"config.toml", "metrics.jsonl", "metrics.csv", "report.html",
                           "checkpoints/step-6/manifest.json"})
    EXPECT_TRUE(fs::exists(folder / "run" / name)) << name;
  EXPECT_EQ(resolve({folder / "run/config.toml", {}}), config);
  EXPECT_FALSE(result.interrupted);
  EXPECT_FALSE(result.sample.empty());
  const auto records = read_metrics(folder / "run/metrics.jsonl");
  ASSERT_EQ(records.size(), 7u);  // step 0 is the untrained model
  EXPECT_TRUE(records[0].validation_loss && records[2].validation_loss &&
              records[6].validation_loss);
  EXPECT_FALSE(records[1].validation_loss);
}

// Times are too short to be exact; leaving out the micro-batches would be wrong by a factor of 8.
TEST(Loop, TokensPerSecondCountEveryMicroBatch) {
  const testing::TemporaryFolder folder;
  Config config = small_config("fp32");
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  config.train.accumulate = 8;
  config.run.eval_every = 0;
  run(config, Progress::Mode::quiet);
  const Record last = read_metrics(folder / "run/metrics.jsonl").back();
  const auto tokens =
      static_cast<double>(config.train.steps * 8 * config.train.batch * config.model.context);
  EXPECT_GT(last.tokens_per_second, 0.5 * tokens / (last.seconds + 0.001));
  EXPECT_LT(last.tokens_per_second, 2 * tokens / (last.seconds - 0.001));
}

TEST(Loop, TheLossFalls) {
  const testing::TemporaryFolder folder;
  Config config = small_config("bf16");
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  config.train.steps = 60;
  config.train.lr = 1e-2;
  const RunResult result = run(config, Progress::Mode::quiet);
  EXPECT_LT(*result.last_validation_loss, 0.6 * *result.first_validation_loss);
}

TEST(Loop, DoesNotTouchAnEarlierRun) {
  const testing::TemporaryFolder folder;
  Config config = small_config();
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  run(config, Progress::Mode::quiet);
  const std::string before = testing::content_of(folder / "run/metrics.jsonl");
  try {
    run(config, Progress::Mode::quiet);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("add --resume"));
  }
  EXPECT_EQ(testing::content_of(folder / "run/metrics.jsonl"), before);
}

// As a supervisor does that gives the same line at every start.
TEST(Loop, ResumeStartsWhatIsNotThere) {
  const testing::TemporaryFolder folder;
  Config config = small_config();
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "none").string();
  config.run.resume = true;
  config.train.steps = 2;
  EXPECT_EQ(run(config, Progress::Mode::quiet).steps, 2);
  config.train.steps = 3;
  EXPECT_EQ(run(config, Progress::Mode::quiet).steps, 3);
  EXPECT_EQ(read_metrics(folder / "none/metrics.jsonl").size(), 4u);
}

}  // namespace
}  // namespace binade::train
