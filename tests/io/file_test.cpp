#include "binade/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::io {
namespace {

using ::binade::testing::content_of;
using ::binade::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

int64_t files_in(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()),
                       std::filesystem::directory_iterator());
}

TEST(MappedFile, HoldsTheBytes) {
  const TemporaryFolder folder;
  MappedFile file(folder.put("a", "some bytes"), "reader");
  EXPECT_EQ(text_of(file), "some bytes");
  MappedFile moved = std::move(file);
  EXPECT_EQ(text_of(moved), "some bytes");
  moved = MappedFile(folder.put("b", "others"), "reader");
  EXPECT_EQ(text_of(moved), "others");
  EXPECT_TRUE(MappedFile(folder.put("empty", ""), "reader").bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(test::error_of([&] { MappedFile(folder / "absent", "reader"); }),
              AllOf(HasSubstr("reader: "), HasSubstr("absent"), HasSubstr("No such file")));
  EXPECT_THAT(test::error_of([&] { MappedFile(folder.path(), "reader"); }),
              HasSubstr("expected a regular file, found a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(test::error_of([&] { MappedFile(folder / "pipe", "reader"); }),
              HasSubstr("expected a regular file"));
}

TEST(ReadText, IsBounded) {
  const TemporaryFolder folder;
  const auto path = folder.put("text", "12345");
  EXPECT_EQ(read_text(path, "reader", 5), "12345");
  EXPECT_THAT(test::error_of([&] { read_text(path, "reader", 4); }),
              HasSubstr("expected at most 4 bytes, found 5"));
}

TEST(AtomicFile, AppearsAtCommitAlone) {
  const TemporaryFolder folder;
  const auto path = folder.put("data", "old");
  {
    AtomicFile file(path, "writer");
    file.append(std::string_view("new "));
    file.append(std::string_view("content"));
    EXPECT_EQ(content_of(path), "old");
    file.commit();
    EXPECT_EQ(content_of(path), "new content");
  }
  EXPECT_EQ(content_of(path), "new content");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  const auto path = folder.put("data", "old");
  {
    AtomicFile file(path, "writer");
    file.append(std::string_view("half"));
  }
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(files_in(folder), 1);
}

// A killed writer's file goes; one that is being written stays, and so does what others call so.
TEST(AtomicFile, RemovesLeftovers) {
  const TemporaryFolder folder;
  for (const char* name : {"a.tmp-1-0", "a.tmp-12-345", "a.tmp-backup", "a.tmp-", "b.tmp-1-0"})
    folder.put(name, "half");
  AtomicFile first(folder / "a", "writer"), second(folder / "a", "writer");
  first.append("1");
  second.append("2");
  first.commit();
  EXPECT_EQ(content_of(folder / "a"), "1");
  second.commit();
  EXPECT_EQ(content_of(folder / "a"), "2");
  for (const char* name : {"a.tmp-backup", "a.tmp-", "b.tmp-1-0"})
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  EXPECT_EQ(files_in(folder), 4);
}

TEST(AtomicFile, SaysWhyItCannotWrite) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      test::error_of([&] { AtomicFile(folder / "absent/file", "writer"); }),
      AllOf(HasSubstr("writer: "), HasSubstr("expected a file to create, found No such file")));
  std::filesystem::create_directory(folder / "taken");
  folder.put("taken/inside", "x");
  AtomicFile file(folder / "taken", "writer");
  EXPECT_THAT(test::error_of([&] { file.commit(); }), HasSubstr("expected a file to put in place"));
}

TEST(AtomicFile, AFullDiskIsAnErrorAndChangesNothing) {
  const TemporaryFolder folder;
  const auto path = folder.put("data", "old");
  // A limit on file sizes simulates a full disk.
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    AtomicFile file(path, "writer");
    file.append(std::string(1000, 'x'));
  } catch (const Error& error) {
    message = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, AllOf(HasSubstr("expected a file to write, found File too large"),
                             HasSubstr("nothing was changed")));
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(MappedFile, AFileThatShrinksIsAnErrorNotASignal) {
  const auto previous = std::signal(SIGBUS, SIG_DFL);
  guard_mapped_files();
  const TemporaryFolder folder;
  const auto path = folder.put("a", std::string(100'000, 'x'));
  {
    const MappedFile whole(folder.put("b", "b"), "reader"), file(path, "reader");
    EXPECT_NO_THROW(check_mapped_files("reader"));
    std::filesystem::resize_file(path, 10);
    EXPECT_EQ(file.bytes()[99'999], std::byte{0});
    EXPECT_THAT(test::error_of([] { check_mapped_files("reader"); }),
                AllOf(HasSubstr("reader: " + path.string()), HasSubstr("expected 100000 bytes")));
    EXPECT_THROW(file.check_intact("reader"), Error);
    EXPECT_NO_THROW(whole.check_intact("reader"));
  }
  // Closing it ends the matter.
  EXPECT_NO_THROW(check_mapped_files("reader"));
  std::signal(SIGBUS, previous);
}

TEST(AppendFile, GrowsAndSaysWhatFails) {
  const TemporaryFolder folder;
  const auto path = folder.put("log", "one\n");
  {
    AppendFile file(path, "writer");
    file.append("two\n");
    EXPECT_EQ(content_of(path), "one\ntwo\n");
    file.sync();
  }
  AppendFile full("/dev/full", "writer");
  EXPECT_THAT(test::error_of([&] { full.append("x"); }),
              AllOf(HasSubstr("writer: /dev/full"), HasSubstr("No space")));
  EXPECT_THAT(test::error_of([&] { AppendFile(folder / "no/such", "writer"); }),
              HasSubstr("No such file"));
}

}  // namespace
}  // namespace binade::io
