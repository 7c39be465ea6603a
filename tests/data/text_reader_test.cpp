#include "binade/data/text_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "data/packed.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_at(const std::filesystem::path& where) {
  TextReader reader(where.string());
  std::string text;
  while (reader.read(text)) EXPECT_LE(reader.consumed(), reader.total());
  EXPECT_EQ(reader.consumed(), reader.total());
  return text;
}

TEST(TextReader, UnpacksTextsAndJsonLines) {
  const testing::TemporaryFolder folder;
  const std::string lines = "{\"text\":\"one\"}\n{\"text\":\"two\"}";
  EXPECT_EQ(text_at(folder.put("a.txt.gz", gzipped("first"))), "first");
  EXPECT_EQ(text_at(folder.put("b.jsonl.gz", gzipped(lines))), "one\ntwo\n");
  EXPECT_EQ(text_at(folder.put("c.jsonl.zst", zstandard("\xEF\xBB\xBF" + lines))), "one\ntwo\n");
  folder.put("d.txt", "last");
  EXPECT_EQ(text_at(folder.path()), "first\none\ntwo\none\ntwo\nlast\n");
}

// Lines and characters may lie across the blocks in which files are read.
TEST(TextReader, GivesLongFilesWhole) {
  const testing::TemporaryFolder folder;
  std::string lines, texts;
  for (int i = 0; i < 3000; ++i) {
    const std::string text(static_cast<size_t>(i % 1500), static_cast<char>('a' + i % 26));
    lines += "{\"text\":\"" + text + "\"}\n";
    texts += text + "\n";
  }
  ASSERT_GT(lines.size(), size_t{2} << 20);
  EXPECT_TRUE(text_at(folder.put("a.jsonl", lines)) == texts);
  EXPECT_TRUE(text_at(folder.put("a.txt", lines)) == lines);
  const std::string one = "{\"text\":\"" + std::string(3 << 20, 'x') + "\"}";
  EXPECT_TRUE(text_at(folder.put("b.jsonl", one)) == std::string(3 << 20, 'x') + "\n");
  folder.put("a.jsonl", lines + "{\"body\":\"two\"}\n");
  EXPECT_THAT(test::error_of([&] { text_at(folder / "a.jsonl"); }),
              AllOf(HasSubstr("\"text\""), HasSubstr("byte " + std::to_string(lines.size()))));
}

TEST(TextReader, OfAFolderFilesThatAreNoTextsAreSkipped) {
  const testing::TemporaryFolder folder;
  folder.put("a.txt", "text");
  folder.put("b.png", std::string_view("\x89PNG\0", 5));
  folder.put("c.gz", gzipped(std::string_view("tar\0", 4)));
  EXPECT_EQ(text_at(folder.path()), "text\n");
}

TEST(TextReader, OtherCompressedFilesAreRefused) {
  const testing::TemporaryFolder folder;
  folder.put("a.txt", "text");
  const auto path = folder.put("b.txt.xz", "x");
  for (const auto& where : {path, folder.path()})
    EXPECT_THAT(test::error_of([&] { text_at(where); }), HasSubstr("unxz"));
}

}  // namespace
}  // namespace binade::data
