#include "binade/train/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = testing::content_of(entry.path());
  return files;
}

// Training continues immediately, and the checkpoint holds the state at the call of save().
TEST(CheckpointWriter, WritesWhatASaveOnTheSpotWrites) {
  const testing::TemporaryFolder folder;
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    SCOPED_TRACE(precision);
    Trainer trainer(small_config(precision));
    trainer.step(small_tokens());
    const fs::path at_once = save_checkpoint(trainer, folder / "at_once" / precision, 2, "model");
    CheckpointWriter writer(folder / "behind" / precision, 2);
    EXPECT_FALSE(writer.save(trainer, "model"));
    for (int i = 0; i < 3; ++i) trainer.step(small_tokens());
    const auto behind = writer.wait();
    ASSERT_TRUE(behind);
    EXPECT_EQ(files_of(*behind), files_of(at_once));
    EXPECT_EQ(files_of(*behind).at("tokenizer.model"), "model");
    EXPECT_FALSE(writer.wait());
    EXPECT_FALSE(writer.poll());
  }
}

TEST(CheckpointWriter, OneAtATimeInOrder) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  CheckpointWriter writer(folder.path(), 2);
  std::vector<fs::path> written;
  for (int i = 0; i < 4; ++i) {
    trainer.step(small_tokens());
    if (const auto earlier = writer.save(trainer, "")) written.push_back(*earlier);
  }
  written.push_back(*writer.wait());
  EXPECT_THAT(written, ::testing::ElementsAre(folder / "step-1", folder / "step-2",
                                              folder / "step-3", folder / "step-4"));
  EXPECT_EQ(list_checkpoints(folder.path()).size(), 2u);
}

TEST(CheckpointWriter, AFailureInTheBackgroundIsToldByTheNextCall) {
  const testing::TemporaryFolder folder;
  folder.put("file", "");
  Trainer trainer(small_config());
  for (const bool by_save : {false, true}) {
    CheckpointWriter writer(folder / "file", 2);
    EXPECT_NO_THROW(writer.save(trainer, ""));
    if (by_save) {
      EXPECT_THROW(writer.save(trainer, ""), Error);
    } else {
      EXPECT_THROW(writer.wait(), Error);
    }
  }
}

}  // namespace
}  // namespace binade::train
