#include <gtest/gtest.h>

#include <fstream>

#include "binade/base/error.h"
#include "binade/train/checkpoint.h"
#include "binade/train/loop.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

Config resumable(const testing::TemporaryFolder& folder) {
  Config config = small_config("fp16");
  config.steps = 4;
  config.checkpoint_every = 2;
  config.scale_init = 0x1p40;  // every step is skipped
  config.data = folder.put("text.txt", small_text()).string();
  config.out = (folder / "run").string();
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
  config.resume = true;
  const RunResult result = run(config, Progress::Mode::quiet);
  records = read_metrics(folder / "run/metrics.jsonl");
  ASSERT_EQ(records.size(), 5u);
  for (size_t i = 1; i < records.size(); ++i)
    EXPECT_GE(records[i].seconds, records[i - 1].seconds) << "step " << i;
  EXPECT_GT(records[4].seconds, 1000);
  EXPECT_LT(records[4].seconds, 1500);
  EXPECT_GT(result.seconds, 1000);
}

// What a log says was skipped counts from the run's beginning.
TEST(LoopResume, GoesOnWithTheCountOfSkippedSteps) {
  const testing::TemporaryFolder folder;
  Config config = resumable(folder);
  run(config, Progress::Mode::quiet);
  fs::remove_all(folder / "run/checkpoints/step-4");
  config.resume = true;
  run(config, Progress::Mode::quiet);
  const std::vector<Record> records = read_metrics(folder / "run/metrics.jsonl");
  ASSERT_EQ(records.size(), 5u);
  for (size_t i = 1; i < records.size(); ++i) {
    EXPECT_EQ(records[i].skipped, static_cast<int64_t>(i));
    EXPECT_EQ(records[i].lr, records[1].lr);  // none was applied
  }
}

// A mixture continues with the sequences that would have come, and only with its own sources.
TEST(LoopResume, AMixtureContinuesBitForBit) {
  const testing::TemporaryFolder folder;
  Config config = small_config();
  config.steps = 4;
  config.checkpoint_every = 2;
  config.data = "3*" + folder.put("a.txt", small_text()).string() + ",1*" +
                folder.put("b.txt", small_text() + small_text()).string();
  config.out = (folder / "run").string();
  run(config, Progress::Mode::quiet);
  const std::vector<Record> expected = read_metrics(folder / "run/metrics.jsonl");
  fs::remove_all(folder / "run/checkpoints/step-4");
  config.resume = true;
  run(config, Progress::Mode::quiet);
  const std::vector<Record> resumed = read_metrics(folder / "run/metrics.jsonl");
  ASSERT_EQ(resumed.size(), expected.size());
  for (size_t i = 1; i < expected.size(); ++i) EXPECT_EQ(resumed[i].loss, expected[i].loss) << i;
  EXPECT_EQ(resumed.back().validation_loss, expected.back().validation_loss);
  config.data.replace(0, 1, "2");
  EXPECT_THROW(run(config, Progress::Mode::quiet), Error);
}

}  // namespace
}  // namespace binade::train
