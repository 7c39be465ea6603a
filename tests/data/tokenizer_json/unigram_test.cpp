#include "binade/data/tokenizer_json/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "binade/base/error.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> unigram_ids(const Unigram& model, const std::string& word) {
  EncodeScratch scratch;
  std::vector<int32_t> ids;
  model.encode(word, scratch, ids);
  return ids;
}

// The example in the documentation of the tokenizers package.
TEST(Unigram, TakesTheBestPath) {
  const Unigram model(Vocabulary({"<unk>", "a", "b", "c", "d", "cd", "ab", "abc", "abcd"}),
                      {0, 0, 0, 0, 0, 1, 2, 5, 10}, {.unknown = 0});
  EXPECT_THAT(unigram_ids(model, "abcdacdxx"), ElementsAre(8, 1, 5, 0));
}

// Each character could begin a token of any of 4096 lengths.
TEST(Unigram, WorkIsBounded) {
  std::vector<std::string> tokens;
  for (size_t length = 1; length <= 4096; ++length) tokens.emplace_back(length, 'a');
  const Unigram model(Vocabulary(tokens), std::vector<double>(tokens.size(), -1), {});
  EncodeScratch scratch;
  std::vector<int32_t> ids;
  const std::string word(20'000, 'a');
  scratch.budget = WorkBudget(word.size());
  EXPECT_THAT(test::error_of([&] { model.encode(word, scratch, ids); }),
              HasSubstr("steps for 20000 bytes of text"));
  scratch.budget = WorkBudget(100);
  model.encode(word.substr(0, 100), scratch, ids);
  EXPECT_EQ(ids, std::vector<int32_t>{99});
}

// All ways through a word, one by one.
double best_score(std::string_view word, const std::vector<std::string>& tokens,
                  const std::vector<double>& scores) {
  if (word.empty()) return 0;
  double best = -std::numeric_limits<double>::infinity();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (word.starts_with(tokens[id]))
      best =
          std::max(best, scores[id] + best_score(word.substr(tokens[id].size()), tokens, scores));
  }
  return best;
}

TEST(Unigram, NoPathIsBetter) {
  const std::vector<std::string> tokens = {"a", "b", "ab", "ba", "aab", "bb", "abb", "bab", "abab"};
  const std::vector<double> scores = {-2, -2.25, -3.5, -3.75, -4.5, -4.25, -5, -5.5, -6};
  const Unigram model(Vocabulary(tokens), scores, {});
  for (unsigned bits = 0; bits < 1U << 10U; ++bits) {
    std::string word;
    for (unsigned i = 0; i < 10; ++i) word += (bits >> i & 1U) != 0 ? 'a' : 'b';
    double score = 0;
    std::string text;
    for (const int32_t id : unigram_ids(model, word)) {
      score += scores[static_cast<size_t>(id)];
      text += tokens[static_cast<size_t>(id)];
    }
    ASSERT_EQ(text, word);
    ASSERT_EQ(score, best_score(word, tokens, scores)) << word;
  }
}

// As in the package: of two equal paths the one found first stays, which has the longer last token.
TEST(Unigram, AnEqualPathIsNotBetter) {
  const Unigram model(Vocabulary({"a", "b", "ab", "bab"}), {-1, -1, -2, -3}, {});
  EXPECT_THAT(unigram_ids(model, "ab"), ElementsAre(2));
  EXPECT_THAT(unigram_ids(model, "abab"), ElementsAre(0, 3));
}

// An unknown character counts 10 less than the lowest score: -1 + 5 - 10 is worse than -1.
TEST(Unigram, AnUnknownCharacterHasItsPrice) {
  const Unigram model(Vocabulary({"<unk>", "a", "xa"}), {0, 5, -1}, {.unknown = 0});
  EXPECT_THAT(unigram_ids(model, "xa"), ElementsAre(2));
  EXPECT_THAT(unigram_ids(model, "xxa"), ElementsAre(0, 2));
}

TEST(Unigram, UnknownCharacters) {
  const Vocabulary vocabulary({"<unk>", "a", "<0xC3>", "<0xA4>"});
  const std::vector<double> scores = {0, -1, -2, -2};
  EXPECT_THAT(unigram_ids(Unigram(vocabulary, scores, {.unknown = 0}), "xxaxy"),
              ElementsAre(0, 1, 0));
  EXPECT_THAT(
      unigram_ids(Unigram(vocabulary, scores, {.unknown = 0, .byte_fallback = true}), "a\u00E4x"),
      ElementsAre(1, 0));  // one unknown text, not all of whose bytes have tokens
  EXPECT_THAT(
      unigram_ids(Unigram(vocabulary, scores, {.unknown = 0, .byte_fallback = true}), "a\u00E4a"),
      ElementsAre(1, 2, 3, 1));
  EXPECT_THAT(test::error_of([&] { unigram_ids(Unigram(vocabulary, scores, {}), "ax"); }),
              HasSubstr("an unk_id"));
}

}  // namespace
}  // namespace binade::data
