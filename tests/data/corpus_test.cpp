#include "binade/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "io/temporary_folder.h"

namespace binade::data {
namespace {

using ::testing::HasSubstr;

TEST(Corpus, BuiltinHoldsTheSources) {
  const std::string_view text = builtin_corpus();
  EXPECT_GT(text.size(), 200'000u);
  EXPECT_THAT(text, HasSubstr("std::string_view builtin_corpus()"));
  EXPECT_EQ(text.find('\0'), std::string_view::npos);
}

TEST(Corpus, FolderIsReadInTheOrderOfPaths) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "b");
  std::filesystem::create_directories(folder / ".git");
  folder.put("c.txt", "third");
  folder.put("b/x.txt", "second\n");
  folder.put("a.txt", "first");
  folder.put(".hidden", "no");
  folder.put(".git/config", "no");
  folder.put("image.png", std::string_view("\x89PNG\0", 5));
  EXPECT_EQ(read_text(folder.path().string()), "first\nsecond\nthird\n");
}

TEST(Corpus, RefusesWhatIsNotThere) {
  const testing::TemporaryFolder folder;
  const std::pair<std::string, const char*> cases[] = {
      {(folder / "none.txt").string(), "No such file"},
      {folder.put("empty.txt", "").string(), "an empty file"},
      {folder.path().string() + "/", "none in it"},
  };
  for (const auto& [path, message] : cases) {
    try {
      read_text(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  }
}

TEST(Corpus, ChoosesTheReaderByName) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(read_tokens("builtin", 256).size(), static_cast<int64_t>(builtin_corpus().size()));
  EXPECT_EQ(read_tokens(folder.put("a.txt", "abcd").string(), 256).size(), 4);
  EXPECT_EQ(read_tokens(folder.put("a.bin", "abcd").string(), 65536).size(), 2);
}

}  // namespace
}  // namespace binade::data
