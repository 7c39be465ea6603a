#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "binade/train/checkpoint.h"
#include "io/system_calls.h"
#include "io/temporary_folder.h"
#include "support/values.h"
#include "train/small_run.h"

// What a checkpoint asks of the system, and what is left of the one before it where that fails.
namespace binade::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SystemCall;
using testing::SystemCalls;

constexpr const char* tokenizer_bytes = "a tokenizer's model";

// A run with a checkpoint of step 1 and one to come.
class CheckpointDurability : public ::testing::Test {
 protected:
  CheckpointDurability() : trainer_(tiny()) {
    trainer_.step(small_tokens());
    first_ = take_snapshot(trainer_, tokenizer_bytes);
    trainer_.step(small_tokens());
    second_ = take_snapshot(trainer_, tokenizer_bytes);
  }

  static Config tiny() {
    Config config = small_config();
    config.model.layers = 1;
    return config;
  }

  static bool is_good(const fs::path& checkpoint) {
    return test::error_of([&] { verify_checkpoint(checkpoint); }).empty();
  }

  Trainer trainer_;
  Snapshot first_, second_;
};

// The index of the first call that fits, from `begin` on.
template <class Fits>
size_t index_of(const std::vector<SystemCall>& calls, size_t begin, Fits fits) {
  size_t i = begin;
  while (i < calls.size() && !fits(calls[i])) ++i;
  EXPECT_LT(i, calls.size());
  return i;
}

TEST_F(CheckpointDurability, EverythingIsOnDiskBeforeItsName) {
  const testing::TemporaryFolder folder;
  write_checkpoint(first_, folder.path(), 1);
  std::vector<SystemCall> calls;
  {
    const SystemCalls seen;
    write_checkpoint(second_, folder.path(), 1);
    calls = seen.calls();
  }
  const size_t in_place = index_of(calls, 0, [&](const SystemCall& call) {
    return call.name == "rename" && call.to == folder / "step-2";
  });
  const fs::path hidden = calls[in_place].path;
  EXPECT_EQ(hidden.parent_path(), folder.path());
  EXPECT_THAT(hidden.filename().string(), ::testing::StartsWith(".step-2.tmp-"));
  size_t last_name = 0;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "step-2")) {
    const fs::path name = hidden / entry.path().filename();
    SCOPED_TRACE(name);
    const size_t renamed = index_of(
        calls, 0, [&](const SystemCall& call) { return call.name == "rename" && call.to == name; });
    const fs::path temporary = calls[renamed].path;
    const size_t written = index_of(calls, 0, [&](const SystemCall& call) {
      return call.name == "write" && call.path == temporary;
    });
    const size_t synced = index_of(calls, written, [&](const SystemCall& call) {
      return call.name == "fsync" && call.path == temporary;
    });
    EXPECT_LT(synced, renamed);
    for (size_t i = synced; i < calls.size(); ++i)
      EXPECT_FALSE(calls[i].name == "write" && calls[i].path == temporary);
    EXPECT_LT(renamed, in_place);
    last_name = std::max(last_name, renamed);
    ++files;
  }
  EXPECT_EQ(files, 6);
  EXPECT_EQ(calls[last_name].to, hidden / "manifest.json");
  const auto syncs = [](const fs::path& path) {
    return [path](const SystemCall& call) { return call.name == "fsync" && call.path == path; };
  };
  EXPECT_LT(index_of(calls, last_name, syncs(hidden)), in_place);
  const size_t durable = index_of(calls, in_place, syncs(folder.path()));
  const size_t removed = index_of(calls, 0, [&](const SystemCall& call) {
    return call.name == "rename" && call.path == folder / "step-1";
  });
  EXPECT_LT(durable, removed);
  EXPECT_FALSE(fs::exists(folder / "step-1"));
}

TEST_F(CheckpointDurability, WhateverFailsTheOneBeforeIsWhole) {
  size_t count = 0, in_place = 0;
  {
    const testing::TemporaryFolder folder;
    write_checkpoint(first_, folder.path(), 1);
    const SystemCalls seen;
    write_checkpoint(second_, folder.path(), 1);
    count = seen.calls().size();
    in_place = index_of(seen.calls(), 0, [&](const SystemCall& call) {
      return call.name == "rename" && call.to == folder / "step-2";
    });
  }
  // After the name come its sync and the removal of the old one.
  ASSERT_EQ(count, in_place + 3);
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE("call " + std::to_string(i));
    const testing::TemporaryFolder folder;
    {
      const SystemCalls unsynchronized;
      write_checkpoint(first_, folder.path(), 1);
    }
    std::string message;
    {
      SystemCalls seen;
      seen.fail_at(i, EIO);
      message = test::error_of([&] { write_checkpoint(second_, folder.path(), 1); });
    }
    EXPECT_TRUE(is_good(folder / "step-1"));
    EXPECT_EQ(fs::exists(folder / "step-2"), i > in_place);
    if (i > in_place) {
      EXPECT_TRUE(is_good(folder / "step-2"));
    }
    for (const auto& entry : fs::directory_iterator(folder.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".step-2")) << entry.path();
    // An old checkpoint that cannot be removed is no reason to stop a run.
    EXPECT_EQ(message.empty(), i + 1 == count);
    if (!message.empty()) {
      EXPECT_THAT(message, HasSubstr("Input/output error"));
    }
  }
}

// --- damage ---

TEST_F(CheckpointDurability, ADamagedTokenizerIsRefused) {
  const testing::TemporaryFolder folder;
  const fs::path saved = write_checkpoint(first_, folder.path(), 2);
  EXPECT_TRUE(is_good(saved));
  folder.put("step-1/tokenizer.model", "a tokenizer's mOdel");
  EXPECT_THAT(test::error_of([&] { load_checkpoint(trainer_, saved); }),
              AllOf(HasSubstr("tokenizer.model"), HasSubstr("XXH3")));
  fs::remove(saved / "tokenizer.model");
  EXPECT_THAT(test::error_of([&] { load_checkpoint(trainer_, saved); }),
              HasSubstr("tokenizer.model"));
}

// Every file that a checkpoint holds, one after the other.
TEST_F(CheckpointDurability, ADamagedOneIsReplacedByASaveOfItsStep) {
  const testing::TemporaryFolder folder;
  const fs::path saved = write_checkpoint(first_, folder.path(), 2);
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::directory_iterator(saved))
    contents[entry.path().filename().string()] = testing::content_of(entry.path());
  ASSERT_EQ(contents.size(), 6u);
  for (const auto& [name, content] : contents) {
    SCOPED_TRACE(name);
    std::string damaged = content;
    damaged[damaged.size() / 2] ^= 4;
    folder.put("step-1/" + name, damaged);
    EXPECT_FALSE(is_good(saved));
    EXPECT_EQ(write_checkpoint(first_, folder.path(), 2), saved);
    EXPECT_TRUE(is_good(saved));
    for (const auto& [other, expected] : contents)
      EXPECT_EQ(testing::content_of(saved / other), expected) << other;
  }
  EXPECT_EQ(list_checkpoints(folder.path()).size(), 1u);
}

// A whole one is left alone: its files are the same ones.
TEST_F(CheckpointDurability, AWholeOneIsNotWrittenAgain) {
  const testing::TemporaryFolder folder;
  write_checkpoint(first_, folder.path(), 2);
  const SystemCalls seen;
  write_checkpoint(first_, folder.path(), 2);
  EXPECT_TRUE(seen.calls().empty());
}

}  // namespace
}  // namespace binade::train
