#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "binade/amp/recipe/text.h"
#include "binade/base/error.h"
#include "binade/io/manifest.h"
#include "binade/train/checkpoint.h"
#include "binade/train/report/run_summary.h"
#include "binade/train/run/loop.h"
#include "binade/train/run/resume_settings.h"
#include "binade/train/run/start.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

Config resumable(const testing::TemporaryFolder& folder) {
  Config config = small_config("fp16");
  config.train.steps = 4;
  config.run.checkpoint_every = 2;
  config.precision.scale_init = 0x1p40;  // every step is skipped
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  return config;
}

// A clock that ran for a long time before the run was stopped.
TEST(LoopResume, GoesOnWithTheSecondsOfTheRun) {
  const testing::TemporaryFolder folder;
  Config config = resumable(folder);
  run(config, Progress::Mode::quiet);
  fs::remove_all(folder / "run/checkpoints/step-4");
  std::vector<Record> records = read_metrics(folder / "run/metrics.jsonl");
  {
    std::ofstream log(folder / "run/metrics.jsonl");
    for (Record& record : records) {
      record.seconds += 1000;
      log << to_json(record) << '\n';
    }
  }
  config.run.resume = true;
  const RunResult result = run(config, Progress::Mode::quiet);
  records = read_metrics(folder / "run/metrics.jsonl");
  ASSERT_EQ(records.size(), 5u);
  for (size_t i = 1; i < records.size(); ++i)
    EXPECT_GE(records[i].seconds, records[i - 1].seconds) << "step " << i;
  EXPECT_GT(records[4].seconds, 1000);
  EXPECT_LT(records[4].seconds, 1500);
  EXPECT_GT(result.seconds, 1000);
}

TEST(LoopResume, AFinishedRunIsTheOneItWas) {
  const testing::TemporaryFolder folder;
  Config config = resumable(folder);
  config.run.sample = 5;
  const RunResult first = run(config, Progress::Mode::quiet);
  EXPECT_FALSE(first.finished_before);
  config.run.resume = true;
  const RunResult again = run(config, Progress::Mode::quiet);
  EXPECT_TRUE(again.finished_before);
  EXPECT_FALSE(again.interrupted);
  EXPECT_FALSE(again.stopped_early);
  EXPECT_EQ(again.steps, 4);
  EXPECT_EQ(again.folder, first.folder);
  EXPECT_EQ(again.checkpoint.filename(), "step-4");
  EXPECT_EQ(again.sample, first.sample);
  EXPECT_NEAR(again.seconds, first.seconds, 0.001);  // as the log has them
}

// What a log says was skipped counts from the run's beginning.
TEST(LoopResume, GoesOnWithTheCountOfSkippedSteps) {
  const testing::TemporaryFolder folder;
  Config config = resumable(folder);
  run(config, Progress::Mode::quiet);
  fs::remove_all(folder / "run/checkpoints/step-4");
  config.run.resume = true;
  run(config, Progress::Mode::quiet);
  const std::vector<Record> records = read_metrics(folder / "run/metrics.jsonl");
  ASSERT_EQ(records.size(), 5u);
  for (size_t i = 1; i < records.size(); ++i) {
    EXPECT_EQ(records[i].skipped, static_cast<int64_t>(i));
    EXPECT_EQ(records[i].lr, records[1].lr);  // none was applied
  }
}

// The losses of a run of 4 steps and those after it is resumed at step 2.
void expect_same_resumed(Config config) {
  const fs::path folder = config.run.out;
  run(config, Progress::Mode::quiet);
  const std::vector<Record> expected = read_metrics(folder / "metrics.jsonl");
  fs::remove_all(folder / "checkpoints/step-4");
  config.run.resume = true;
  run(config, Progress::Mode::quiet);
  const std::vector<Record> resumed = read_metrics(folder / "metrics.jsonl");
  ASSERT_EQ(resumed.size(), expected.size());
  for (size_t i = 1; i < expected.size(); ++i) EXPECT_EQ(resumed[i].loss, expected[i].loss) << i;
  EXPECT_EQ(resumed.back().validation_loss, expected.back().validation_loss);
}

// Scales, random rounding and the switch to bf16 continue where they stopped, in every recipe that
// a CPU runs.
TEST(LoopResume, EveryRecipeContinuesBitForBit) {
  std::vector<amp::Recipe> recipes;
  for (const amp::Recipe* builtin : amp::recipes::all()) recipes.push_back(*builtin);
  for (const char* text :
       {"nvfp4, wgrad_hadamard = 32, random_signs = true, four_over_six = true, until = 0.7",
        "row, format = \"int8\", input.stochastic = true"})
    recipes.push_back(amp::parse_recipe(text));
  for (const amp::Recipe& recipe : recipes) {
    SCOPED_TRACE(amp::to_text(recipe));
    const testing::TemporaryFolder folder;
    Config config = small_config();
    config.precision.matmul = Precision::quantized;
    config.precision.recipe = recipe;
    config.train.steps = 4;
    config.run.checkpoint_every = 2;
    config.data.source = folder.put("text.txt", small_text()).string();
    config.run.out = (folder / "run").string();
    expect_same_resumed(config);
  }
}

// A mixture continues with the sequences that would have come, and only with its own sources.
TEST(LoopResume, AMixtureContinuesBitForBit) {
  const testing::TemporaryFolder folder;
  Config config = small_config();
  config.train.steps = 4;
  config.run.checkpoint_every = 2;
  config.data.source = "3*" + folder.put("a.txt", small_text()).string() + ",1*" +
                       folder.put("b.txt", small_text() + small_text()).string();
  config.run.out = (folder / "run").string();
  expect_same_resumed(config);
  config.run.resume = true;
  config.data.source.replace(0, 1, "2");
  EXPECT_THROW(run(config, Progress::Mode::quiet), Error);
}

// Its config.toml has keys fp8_* in place of a recipe, and so have its checkpoints.
TEST(LoopResume, ARunOfAnEarlierVersionContinuesWithoutAWord) {
  const testing::TemporaryFolder folder;
  Config config = small_config();
  config.precision.matmul = Precision::quantized;
  config.precision.recipe = amp::parse_recipe("delayed, history = 4, head = true");
  config.train.schedule = optim::ScheduleKind::constant;
  config.train.steps = config.run.checkpoint_every = 2;
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  run(config, Progress::Mode::quiet);
  const std::string checkpoint = "run/checkpoints/step-2/";
  for (const std::string& name : {std::string("run/config.toml"), checkpoint + "config.toml"}) {
    std::string text = testing::content_of(folder / name);
    const size_t begin = text.find("recipe = "), end = text.find('\n', begin);
    ASSERT_NE(begin, text.npos);
    text.replace(begin, end - begin, "fp8_scaling = \"delayed\"\nfp8_history = 4\nfp8_head = true");
    folder.put(name, text);
  }
  const io::Manifest saved = io::read_manifest(folder / checkpoint, "test");
  fs::remove(folder / (checkpoint + "manifest.json"));
  folder.put(checkpoint + "manifest.json",
             io::manifest_text(folder / checkpoint,
                               {.step = saved.step, .facts = saved.facts, .files = {}}, "test"));
  const ResumeSettings settings =
      saved_settings(folder / "run", {{"resume", "true"}, {"steps", "4"}});
  EXPECT_TRUE(settings.warnings.empty());
  EXPECT_EQ(settings.config.precision.recipe, config.precision.recipe);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run(settings.config, Progress::Mode::quiet).steps, 4);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  // Another recipe is refused, by its name.
  Config other = settings.config;
  other.train.steps = 6;
  other.precision.recipe = amp::parse_recipe("delayed, history = 4");
  EXPECT_THROW(run(other, Progress::Mode::quiet), Error);
  other.run.allow_changes = {"recipe"};
  EXPECT_EQ(run(other, Progress::Mode::quiet).steps, 6);
}

// Nothing is left to do, so nothing changes: not the summary, the report or the first command.
TEST(LoopResume, AFinishedRunStaysAsItIs) {
  const testing::TemporaryFolder folder;
  for (const int64_t patience : {0, 1}) {
    Config config = small_config();
    config.data.source = folder.put("text.txt", small_text()).string();
    config.run.out = (folder / std::to_string(patience)).string();
    config.run.patience = patience;
    config.run.keep_best = patience > 0;
    config.train.lr = patience > 0 ? 10 : 1e-3;  // diverges, so that patience ends
    config.train.clip = 0;
    config.train.steps = patience > 0 ? 40 : 4;
    config.train.schedule = optim::ScheduleKind::constant;
    const RunResult first = run(config, Progress::Mode::quiet);
    EXPECT_EQ(first.stopped_early, patience > 0);
    std::map<fs::path, std::string> before;
    const auto files = [&] {
      std::map<fs::path, std::string> all;
      for (const auto& entry : fs::recursive_directory_iterator(config.run.out))
        if (entry.is_regular_file()) all[entry.path()] = testing::content_of(entry.path());
      return all;
    };
    before = files();
    config.run.resume = true;
    const RunResult again = run(config, Progress::Mode::quiet);
    EXPECT_TRUE(again.finished_before);
    EXPECT_EQ(again.steps, first.steps);
    EXPECT_EQ(again.stopped_early, first.stopped_early);
    EXPECT_EQ(again.sample, first.sample);
    EXPECT_EQ(again.best_step, first.best_step);
    EXPECT_EQ(again.last_validation_loss, first.last_validation_loss);
    EXPECT_EQ(files(), before);
    // With more to do it trains on, and the report still names the first command.
    config.run.patience = 0;
    config.train.steps = first.steps + 2;
    const RunResult more = run(config, Progress::Mode::quiet);
    EXPECT_FALSE(more.finished_before);
    EXPECT_EQ(more.steps, config.train.steps);
    EXPECT_EQ(read_run(config.run.out).origin.command, read_run_file(config.run.out)->command);
  }
}

// Killed after its last checkpoint, a run has no summary yet, or that of an earlier interruption.
TEST(LoopResume, AFinishedRunWithoutItsReportGetsIt) {
  const testing::TemporaryFolder folder;
  Config config = resumable(folder);
  const RunResult first = run(config, Progress::Mode::quiet);
  const RunSummary whole = read_run(first.folder);
  fs::remove(first.folder / "summary.json");
  fs::remove(first.report);
  config.run.resume = true;
  EXPECT_FALSE(run(config, Progress::Mode::quiet).finished_before);
  const RunSummary again = read_run(first.folder);
  EXPECT_EQ(again.sample, whole.sample);
  EXPECT_EQ(again.steps, whole.steps);
  EXPECT_GT(again.memory.at_peak[static_cast<size_t>(memory::Category::activations)], 0);
  EXPECT_TRUE(fs::exists(first.report));
  // A summary of an earlier step is not that of the end.
  RunSummary earlier = whole;
  earlier.steps = 2;
  write_summary(earlier, first.folder);
  EXPECT_FALSE(run(config, Progress::Mode::quiet).finished_before);
  EXPECT_TRUE(run(config, Progress::Mode::quiet).finished_before);
}

}  // namespace
}  // namespace binade::train
