#include "binade/data/tokenizer_json/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The pieces of a text, tokens as "#id".
std::vector<std::string> split_by(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::vector<AddedTokenMatcher::Entry> entries;
  for (const AddedToken& token : tokens) entries.push_back({token.content, token});
  std::vector<std::string> pieces;
  WorkBudget budget(text.size());
  AddedTokenMatcher(entries).split(
      text, budget, [&](std::string_view piece) { pieces.emplace_back(piece); },
      [&](int32_t id) { pieces.push_back("#" + std::to_string(id)); });
  return pieces;
}

TEST(AddedTokens, TheLeftmostMatchCountsAndThereTheLongest) {
  const std::vector<AddedToken> tokens = {
      {.id = 1, .content = "fo"}, {.id = 2, .content = "fox"}, {.id = 3, .content = "oxen"}};
  EXPECT_THAT(split_by(tokens, "a foxen fo"), ElementsAre("a ", "#2", "en ", "#1"));
  EXPECT_THAT(split_by(tokens, "oxenfoxfo"), ElementsAre("#3", "#2", "#1"));
  EXPECT_THAT(split_by(tokens, "none"), ElementsAre("none"));
  EXPECT_THAT(split_by({}, "none"), ElementsAre("none"));
}

// No letter, digit or _ on either side.
TEST(AddedTokens, ASingleWordStandsAlone) {
  const std::vector<AddedToken> tokens = {{.id = 7, .content = "fox", .single_word = true}};
  EXPECT_THAT(split_by(tokens, "fox"), ElementsAre("#7"));
  EXPECT_THAT(split_by(tokens, "(fox)-fox."), ElementsAre("(", "#7", ")-", "#7", "."));
  for (const char* within :
       {"foxes", "outfox", "fox_", "_fox", "fox1", "1fox", "fox\u00E9", "\u4E00fox", "foxfox"})
    EXPECT_THAT(split_by(tokens, within), ElementsAre(within));
  EXPECT_THAT(split_by(tokens, "foxes fox"), ElementsAre("foxes ", "#7"));
}

TEST(AddedTokens, TakeTheWhiteSpaceTheyAsk) {
  const auto with = [](bool left, bool right) {
    return std::vector<AddedToken>{{.id = 9, .content = "<m>", .lstrip = left, .rstrip = right}};
  };
  const std::string_view text = "a \t<m>\u00A0 b";
  EXPECT_THAT(split_by(with(false, false), text), ElementsAre("a \t", "#9", "\u00A0 b"));
  EXPECT_THAT(split_by(with(true, false), text), ElementsAre("a", "#9", "\u00A0 b"));
  EXPECT_THAT(split_by(with(false, true), text), ElementsAre("a \t", "#9", "b"));
  EXPECT_THAT(split_by(with(true, true), text), ElementsAre("a", "#9", "b"));
  EXPECT_THAT(split_by(with(true, true), " <m> <m> "), ElementsAre("#9", "#9"));
}

// White space is searched once, not once for each token in it.
TEST(AddedTokens, ManyInWhiteSpaceTakeLinearTime) {
  constexpr size_t count = 1 << 20;
  const std::string spaces(count, ' ');
  for (const bool left : {true, false}) {
    const AddedToken space{.id = 1, .content = " ", .lstrip = left, .rstrip = !left};
    const std::vector<std::string> pieces = split_by({space}, spaces);
    EXPECT_EQ(pieces.size(), count);
    EXPECT_EQ(pieces.back(), "#1");
  }
}

TEST(AddedTokens, WorkIsBounded) {
  const AddedToken almost{.id = 1, .content = std::string(10'000, 'a') + "b"};
  EXPECT_THAT(test::error_of([&] { split_by({almost}, std::string(20'000, 'a')); }),
              AllOf(HasSubstr("the added tokens"), HasSubstr("steps for 20000 bytes")));
  EXPECT_THAT(split_by({almost}, std::string(200, 'a')), ElementsAre(std::string(200, 'a')));
}

}  // namespace
}  // namespace binade::data
