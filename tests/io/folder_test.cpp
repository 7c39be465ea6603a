#include "binade/io/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "io/temporary_folder.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;
using ::binade::testing::content_of;
using ::binade::testing::TemporaryFolder;
using ::testing::UnorderedElementsAre;

void put(const Path& path, std::string_view text) { std::ofstream(path.plain()) << text; }

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

bool keep_notes(const std::string& name) { return name == "notes"; }

TEST(AtomicFolder, AppearsOnceItIsComplete) {
  const TemporaryFolder folder;
  {
    AtomicFolder atomic(folder / "a/b", "writer");
    put(atomic.path() / "data", "new");
    EXPECT_FALSE(fs::exists(folder / "a/b"));
    atomic.commit(keep_notes);
  }
  EXPECT_EQ(content_of(folder / "a/b/data"), "new");
  EXPECT_THAT(names_in(folder / "a"), UnorderedElementsAre("b"));
}

TEST(AtomicFolder, WithoutCommitTheOlderOneStays) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "b");
  put(folder / "b/data", "old");
  {
    const AtomicFolder atomic(folder / "b", "writer");
    put(atomic.path() / "data", "new");
  }
  EXPECT_EQ(content_of(folder / "b/data"), "old");
  EXPECT_THAT(names_in(folder.path()), UnorderedElementsAre("b"));
}

TEST(AtomicFolder, ReplacesAnOlderOneButForWhatIsKept) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "b");
  for (const char* name : {"data", "shard", "notes"}) put(folder / "b" / name, "old");
  {
    AtomicFolder atomic(folder / "b/", "writer");
    put(atomic.path() / "data", "new");
    atomic.commit(keep_notes);
  }
  EXPECT_THAT(names_in(folder / "b"), UnorderedElementsAre("data", "notes"));
  EXPECT_EQ(content_of(folder / "b/data"), "new");
  EXPECT_EQ(content_of(folder / "b/notes"), "old");
  EXPECT_THAT(names_in(folder.path()), UnorderedElementsAre("b"));
}

// A killed writer's folder goes; one that is being written stays.
TEST(AtomicFolder, RemovesLeftovers) {
  const TemporaryFolder folder;
  fs::create_directory(folder / ".b.tmp-00000001");
  put(folder / ".b.tmp-00000001/data", "half");
  AtomicFolder first(folder / "b", "writer");
  AtomicFolder second(folder / "b", "writer");
  EXPECT_THAT(names_in(folder.path()),
              UnorderedElementsAre(first.path().filename(), second.path().filename()));
}

TEST(AtomicFolder, NamesAFolderThatCannotBeWritten) {
  const TemporaryFolder folder;
  put(folder / "file", "");
  EXPECT_THROW(AtomicFolder(folder / "file/b", "writer"), Error);
}

}  // namespace
}  // namespace binade::io
