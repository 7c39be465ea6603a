#include "binade/data/text_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/data/corpus.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TextCheck : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& content) {
    return folder_.put(name, content).string();
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(TextCheck, AcceptsText) {
  const std::string text = put("text.txt", "caf\xC3\xA9 \xE2\x82\xAC\n");
  EXPECT_THAT(check_text(text, false), IsEmpty());
  EXPECT_THAT(check_text(text, true), IsEmpty());
  EXPECT_THAT(check_text("builtin", false), IsEmpty());
  EXPECT_THAT(check_text(folder_.path().string(), false), IsEmpty());
  EXPECT_THAT(check_text("no such file", false), IsEmpty());  // its reader says so
}

TEST_F(TextCheck, SaysHowToConvertParquet) {
  const std::string content("PAR1\x15\0\x15text", 11);
  const std::string file = put("x.parquet", content);
  const auto refusal =
      HasSubstr("data: " + file +
                ": expected text or a token file, found a Parquet file; convert it with the "
                "Python package: python -m binade tokenize-parquet TOKENIZER " +
                file);
  for (const bool by_bytes : {false, true})
    EXPECT_THAT(test::error_of([&] { check_text(file, by_bytes); }), refusal);
  EXPECT_THAT(test::error_of([&] { read_text(file); }), refusal);
  // In a folder of a dataset, where other binary files are skipped.
  EXPECT_THAT(test::error_of([&] { read_text(folder_.path().string()); }), refusal);
  EXPECT_EQ(read_text(put("text.txt", "PAR1 is a word")), "PAR1 is a word");
}

TEST_F(TextCheck, NamesTheFirstZeroByte) {
  const std::string binary = put("model", std::string("ab\0cd\0", 6));
  EXPECT_THAT(check_text(binary, true), ElementsAre(HasSubstr(binary + ", byte 2: a zero byte")));
  EXPECT_THAT(test::error_of([&] { check_text(binary, false); }),
              HasSubstr("data: " + binary + ", byte 2: expected text in UTF-8, found a zero byte"));
}

// Latin-1 is fine for those who train on bytes.
TEST_F(TextCheck, WarnsOfOtherEncodingsIfATokenizerReadsThem) {
  const std::string latin = put("latin.txt", "caf\xE9 au lait");
  EXPECT_THAT(check_text(latin, true), IsEmpty());
  EXPECT_THAT(check_text(latin, false), ElementsAre(HasSubstr(latin + ", byte 3: not UTF-8")));
}

// Only a megabyte is looked at, and may end within a character.
TEST_F(TextCheck, ACharacterMayBeCutAtTheEndOfTheFirstMegabyte) {
  const std::string most((1 << 20) - 1, 'a');
  EXPECT_THAT(check_text(put("cut.txt", most + "\xC3\xA9"), false), IsEmpty());
  EXPECT_THAT(check_text(put("end.txt", "a\xC3"), false), ElementsAre(HasSubstr("byte 1")));
}

TEST_F(TextCheck, IsPartOfReadingData) {
  std::string bytes(4096, 'a');
  bytes[7] = '\0';
  const std::string binary = put("binary", bytes);
  EXPECT_THAT(read_split({.where = binary, .context = 8}).warnings,
              ElementsAre(HasSubstr(binary + ", byte 7")));
  bytes[7] = 'a';
  EXPECT_THAT(read_split({.where = put("text", bytes), .context = 8}).warnings, IsEmpty());
}

}  // namespace
}  // namespace binade::data
