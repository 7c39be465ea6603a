#include "binade/data/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"

namespace binade::data {
namespace {

TEST(Tokens, BytesAreTokensWithoutSign) {
  const Tokens tokens = Tokens::of_bytes(std::string("a\xff\0z", 4));
  ASSERT_EQ(tokens.size(), 4);
  EXPECT_EQ(tokens[0], 'a');
  EXPECT_EQ(tokens[1], 255);
  EXPECT_EQ(tokens[2], 0);
  EXPECT_EQ(tokens.largest(), 255);
  EXPECT_EQ(tokens.slice(1, 3)[0], 255);
  EXPECT_EQ(Tokens().largest(), -1);
}

TEST(Tokens, RunsAreJoinedAndCutAcrossTheirBorders) {
  const Tokens runs[] = {Tokens::of_bytes("abc"), Tokens(),
                         Tokens::of_ids(std::string("\x01\x02\x03\x04", 4), 2),
                         Tokens::of_ids(std::string("\x01\x00\x01\x00", 4), 4)};
  const Tokens all = Tokens::joined(runs);
  ASSERT_EQ(all.size(), 6);
  std::vector<int64_t> ids(6);
  all.read(0, ids);
  EXPECT_THAT(ids, ::testing::ElementsAre('a', 'b', 'c', 0x0201, 0x0403, 65537));
  EXPECT_EQ(all[4], 0x0403);
  EXPECT_EQ(all.largest(), 65537);
  const Tokens middle = all.slice(2, 5);
  ASSERT_EQ(middle.size(), 3);
  std::vector<int64_t> part(2);
  middle.read(1, part);
  EXPECT_THAT(part, ::testing::ElementsAre(0x0201, 0x0403));
  EXPECT_EQ(all.slice(3, 3).size(), 0);
}

TEST(Tokens, SplitKeepsTheEndForValidation) {
  const Tokens tokens = Tokens::of_bytes(std::string(90, 't') + std::string(10, 'v'));
  const Split parts = split(tokens, 0.1, 4, "text");
  EXPECT_EQ(parts.train.size(), 90);
  EXPECT_EQ(parts.train.largest(), 't');
  EXPECT_EQ(parts.validation.size(), 10);
  EXPECT_EQ(parts.validation[0], 'v');
}

TEST(Tokens, SplitGivesValidationAtLeastOneSequence) {
  const Split parts = split(Tokens::of_bytes(std::string(20, 'x')), 0.01, 7, "text");
  EXPECT_EQ(parts.validation.size(), 8);
  EXPECT_EQ(parts.train.size(), 12);
}

TEST(Tokens, SplitRefusesTextThatIsTooShort) {
  EXPECT_NO_THROW(split(Tokens::of_bytes(std::string(16, 'x')), 0.1, 7, "text"));
  try {
    split(Tokens::of_bytes(std::string(15, 'x')), 0.1, 7, "short.txt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("short.txt"),
                                               ::testing::HasSubstr("at least 16 tokens"),
                                               ::testing::HasSubstr("found 15")));
  }
}

}  // namespace
}  // namespace binade::data
