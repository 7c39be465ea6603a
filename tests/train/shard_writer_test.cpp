#include "binade/train/shard_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/io/huggingface.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/small_run.h"

// On one rank; tests/cli/weight_shards_test.cpp has many.
namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ShardWriter, WritesTheTensorsThatTheModelHadAtTheStart) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  trainer.step(small_tokens());
  io::save_pretrained(trainer.model(), folder / "expected");
  ShardWriter writer;
  writer.start(trainer, folder.path().string());
  trainer.step(small_tokens());
  const FileFacts files = writer.finish(trainer);
  ASSERT_EQ(files.size(), 1U);
  const auto& [name, file] = *files.begin();
  EXPECT_EQ(name, "model-00001-of-00001.safetensors");
  EXPECT_EQ(file.bytes, std::filesystem::file_size(folder / name));
  EXPECT_EQ(file.hash, io::describe_file(folder / name, "test").hash);
  EXPECT_EQ(testing::content_of(folder / name),
            testing::content_of(folder / "expected/model.safetensors"));
  EXPECT_NO_THROW(require_shards(folder.path(), files));
}

TEST(ShardWriter, SaysWhatItsFolderIsFor) {
  const testing::TemporaryFolder folder;
  Trainer trainer(small_config());
  ShardWriter writer;
  EXPECT_THAT(
      test::error_of([&] { writer.start(trainer, (folder / "none").string()); }),
      AllOf(HasSubstr("none: expected the folder that rank 0 has made for the shards of this "
                      "checkpoint, found nothing there"),
            HasSubstr("weight_shards needs a file system that all ranks share")));
}

TEST(ShardWriter, MissesWhatAnotherMachineHasWritten) {
  const testing::TemporaryFolder folder;
  folder.put("here", "12345");
  EXPECT_NO_THROW(require_shards(folder.path(), {{"here", {5, ""}}}));
  EXPECT_THAT(test::error_of([&] {
                require_shards(folder.path(), {{"here", {6, ""}}});
              }),
              HasSubstr("here: expected the 6 bytes that a rank has written there, found 5"));
  EXPECT_THAT(test::error_of([&] {
                require_shards(folder.path(), {{"there", {6, ""}}});
              }),
              AllOf(HasSubstr("there: expected the 6 bytes that a rank has written there, found "
                              "No such file"),
                    HasSubstr("weight_shards needs a file system that all ranks share")));
}

// One process writes what it would without the setting.
TEST(ShardWriter, OneRankSharesNothing) {
  Config config = small_config();
  config.ranks.weight_shards = true;
  EXPECT_FALSE(Trainer(config).shares_weights());
}

}  // namespace
}  // namespace binade::train
