#include "binade/io/path.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "binade/io/file.h"
#include "binade/io/folder.h"
#include "io/temporary_folder.h"
#include "support/values.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;
using ::binade::testing::content_of;
using ::binade::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

void write_guarded(const Path& path, std::string_view text) {
  AtomicFile file(path, "writer");
  file.append(text);
  file.commit();
}

// A folder "given" from someone else beside one that is none of its business.
class GuardedPath : public ::testing::Test {
 protected:
  GuardedPath() {
    for (const char* name : {"given", "given/sub", "outside"}) fs::create_directory(folder_ / name);
    folder_.put("outside/file", "precious");
  }
  Path given() const { return Directory(folder_ / "given", "reader"); }
  std::string outside() const { return content_of(folder_ / "outside/file"); }

  TemporaryFolder folder_;
};

TEST_F(GuardedPath, ReadsAndWritesWhatIsThere) {
  write_guarded(given() / "file", "one");
  write_guarded(given() / "sub/file", "two");
  EXPECT_EQ(read_text(given() / "file", "reader", 10), "one");
  EXPECT_EQ(content_of(folder_ / "given/sub/file"), "two");
  EXPECT_THAT(given().names(), UnorderedElementsAre("file", "sub"));
  EXPECT_EQ((given() / "sub/file").string(), (folder_ / "given/sub/file").string());
  EXPECT_EQ((given() / "sub").kind(), EntryKind::folder);
  EXPECT_EQ((given() / "none").kind(), EntryKind::nothing);
  EXPECT_EQ((given() / "sub/file").beside("other").string(),
            (folder_ / "given/sub/other").string());
}

// What a user names is relative to the current folder.
TEST_F(GuardedPath, OthersMayBeRelative) {
  const Path relative = fs::relative(folder_ / "outside");
  ASSERT_TRUE(relative.string().starts_with(".."));
  EXPECT_EQ(read_text(relative / "file", "reader", 10), "precious");
  write_guarded(relative / "new", "one");
  EXPECT_EQ(content_of(folder_ / "outside/new"), "one");
  EXPECT_THAT(relative.names(), UnorderedElementsAre("file", "new"));
  EXPECT_TRUE((relative / "new").unlink());
  EXPECT_TRUE((relative / "folder").make_new_folder());
  EXPECT_EQ((relative / "folder").kind(), EntryKind::folder);
  EXPECT_EQ((relative / "new").kind(), EntryKind::nothing);
}

// errno says why one cannot be renamed: the folder of either name.
TEST_F(GuardedPath, RenamesWithinItsFolders) {
  write_guarded(given() / "file", "one");
  EXPECT_FALSE((given() / "file").rename_to(given() / "none/file", 0));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE((given() / "none/file").rename_to(given() / "file", 0));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_TRUE((given() / "file").rename_to(given() / "sub/other", 0));
  EXPECT_EQ(content_of(folder_ / "given/sub/other"), "one");
}

TEST_F(GuardedPath, RefusesLinksByName) {
  fs::create_symlink(folder_ / "outside/file", folder_ / "given/link");
  fs::create_directory_symlink(folder_ / "outside", folder_ / "given/way");
  fs::create_symlink(folder_ / "outside/new", folder_ / "given/dangling");
  for (const char* name : {"link", "way/file", "dangling"}) {
    SCOPED_TRACE(name);
    const Path path = given() / name;
    const auto refusal =
        AllOf(HasSubstr((folder_ / "given" / *fs::path(name).begin()).string() + ": expected a "),
              HasSubstr("found a link to " + (folder_ / "outside").string()),
              HasSubstr("holds no links"));
    EXPECT_THAT(test::error_of([&] { MappedFile(path, "reader"); }), refusal);
    EXPECT_THAT(test::error_of([&] { write_guarded(path, "new"); }), refusal);
    EXPECT_THAT(test::error_of([&] { AppendFile(path, "writer").append("new"); }), refusal);
    EXPECT_THAT(test::error_of([&] { AtomicFolder(path, "writer"); }), refusal);
    EXPECT_EQ(path.open(O_RDWR | O_CREAT, 0666), -1);
  }
  EXPECT_EQ(outside(), "precious");
  EXPECT_FALSE(fs::exists(folder_ / "outside/new"));
  EXPECT_THAT(test::error_of([&] { given().require_folder_of_files("reader"); }),
              HasSubstr("found a link"));
}

TEST_F(GuardedPath, LeadsNowhereElse) {
  for (const char* name : {"../outside/file", "sub/../../outside/file"})
    EXPECT_EQ((given() / name).open(O_RDONLY), -1) << name;
  EXPECT_EQ((given() / (folder_ / "outside/file")).open(O_RDONLY), -1);
}

TEST_F(GuardedPath, RefusesWhatIsNoFileWithoutWaiting) {
  ASSERT_EQ(::mkfifo((folder_ / "given/pipe").c_str(), 0600), 0);
  for (const char* name : {"pipe", "sub"}) {
    const Path path = given() / name;
    EXPECT_THAT(test::error_of([&] { MappedFile(path, "reader"); }), HasSubstr("expected a file"));
    EXPECT_THAT(test::error_of([&] { AppendFile(path, "writer"); }), HasSubstr("expected a file"));
    EXPECT_THAT(test::error_of([&] { write_guarded(path, ""); }), HasSubstr("expected a file"));
  }
}

// The other names of a file keep its content.
TEST_F(GuardedPath, HardLinksAreNotWritten) {
  for (const char* name : {"appended", "replaced"})
    fs::create_hard_link(folder_ / "outside/file", folder_ / "given" / name);
  AppendFile(given() / "appended", "writer").append(" and more");
  write_guarded(given() / "replaced", "new");
  EXPECT_EQ(content_of(folder_ / "given/appended"), "precious and more");
  EXPECT_EQ(content_of(folder_ / "given/replaced"), "new");
  EXPECT_EQ(outside(), "precious");
}

TEST_F(GuardedPath, RemovesLinksAndNotWhatTheyLeadTo) {
  fs::create_directory_symlink(folder_ / "outside", folder_ / "given/sub/way");
  fs::create_symlink(folder_ / "outside/file", folder_ / "given/sub/link");
  folder_.put("given/sub/file", "");
  (given() / "sub").remove_all();
  EXPECT_FALSE(fs::exists(folder_ / "given/sub"));
  fs::create_directory_symlink(folder_ / "outside", folder_ / "given/way");
  (given() / "way").remove_all();
  EXPECT_THAT(given().names(), ::testing::IsEmpty());
  EXPECT_EQ(outside(), "precious");
}

// The folder given may itself be a link.
TEST_F(GuardedPath, TheFolderItselfMayBeALink) {
  fs::create_directory_symlink(folder_ / "given", folder_ / "link");
  write_guarded(Path(Directory(folder_ / "link", "writer")) / "file", "one");
  EXPECT_EQ(content_of(folder_ / "given/file"), "one");
}

TEST_F(GuardedPath, StaysWithAFolderThatIsRenamed) {
  const Directory directory(folder_ / "given", "writer");
  const Path path(directory);
  fs::rename(folder_ / "given", folder_ / "moved");
  fs::create_directory(folder_ / "given");
  EXPECT_EQ(directory.path(), folder_ / "moved");
  write_guarded(path / "file", "one");
  EXPECT_EQ(content_of(folder_ / "moved/file"), "one");
  EXPECT_TRUE(fs::is_empty(folder_ / "given"));
  fs::remove_all(folder_ / "moved");
  EXPECT_THAT(test::error_of([&] { write_guarded(path / "file", "two"); }),
              HasSubstr("No such file or directory"));
  EXPECT_TRUE(fs::is_empty(folder_ / "given"));
}

TEST(AtomicFolder, ANewOneReplacesNothing) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "taken");
  AtomicFolder atomic(folder / "taken", "writer");
  write_guarded(atomic.path() / "file", "one");
  EXPECT_FALSE(atomic.commit_new());
  EXPECT_TRUE(fs::is_empty(folder / "taken"));
  atomic.rename_target("free");
  EXPECT_TRUE(atomic.commit_new());
  EXPECT_EQ(content_of(folder / "free/file"), "one");
}

}  // namespace
}  // namespace binade::io
