#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "binade/io/file.h"
#include "io/system_calls.h"
#include "io/temporary_folder.h"
#include "support/values.h"

// What AtomicFile asks of the system, in which order, and what is left where it says no.
namespace binade::io {
namespace {

using ::binade::testing::content_of;
using ::binade::testing::SystemCall;
using ::binade::testing::SystemCalls;
using ::binade::testing::TemporaryFolder;
using ::testing::HasSubstr;

void write_new(const std::filesystem::path& path) {
  AtomicFile file(path, "writer");
  file.append(std::string_view("new "));
  file.append(std::string_view("content"));
  file.commit();
}

std::vector<SystemCall> calls_of_writing(const std::filesystem::path& path) {
  const SystemCalls seen;
  write_new(path);
  return seen.calls();
}

int64_t entries_of(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()),
                       std::filesystem::directory_iterator());
}

TEST(AtomicFileDurability, BytesAreOnDiskBeforeTheNameAndTheNameBeforeItReturns) {
  const TemporaryFolder folder;
  const std::vector<SystemCall> calls = calls_of_writing(folder / "data");
  std::vector<std::string> names;
  for (const SystemCall& call : calls) names.push_back(call.name);
  ASSERT_EQ(names, (std::vector<std::string>{"write", "write", "fsync", "rename", "fsync"}));
  const std::filesystem::path temporary = calls[0].path;
  EXPECT_NE(temporary, folder / "data");
  EXPECT_EQ(temporary.parent_path(), folder.path());
  EXPECT_EQ(calls[1].path, temporary);
  EXPECT_EQ(calls[2].path, temporary);
  EXPECT_EQ(calls[3].path, temporary);
  EXPECT_EQ(calls[3].to, folder / "data");
  EXPECT_EQ(calls[4].path, folder.path());
}

TEST(AtomicFileDurability, WhateverFailsTheOldFileIsWhole) {
  const TemporaryFolder counted;
  const size_t calls = calls_of_writing(counted / "data").size();
  for (size_t i = 0; i < calls; ++i) {
    for (const int error : {EIO, ENOSPC}) {
      const TemporaryFolder folder;
      const auto path = folder.put("data", "old");
      std::string message;
      {
        SystemCalls seen;
        seen.fail_at(i, error);
        message = test::error_of([&] { write_new(path); });
      }
      EXPECT_THAT(message, HasSubstr(std::generic_category().message(error))) << "call " << i;
      EXPECT_THAT(message, HasSubstr("writer: ")) << "call " << i;
      // Only the last call comes after the new file is there.
      EXPECT_EQ(content_of(path), i + 1 < calls ? "old" : "new content") << "call " << i;
      EXPECT_EQ(entries_of(folder), 1) << "call " << i;
    }
  }
}

// Interrupted writes go on, and file systems without a sync of folders are no failure.
TEST(AtomicFileDurability, BearsWhatIsNoFailure) {
  const TemporaryFolder folder;
  for (const auto& [index, error] : {std::pair<size_t, int>{0, EINTR}, {4, EINVAL}}) {
    SystemCalls seen;
    seen.fail_at(index, error);
    EXPECT_NO_THROW(write_new(folder / "data")) << error;
    EXPECT_EQ(content_of(folder / "data"), "new content");
  }
}

}  // namespace
}  // namespace binade::io
