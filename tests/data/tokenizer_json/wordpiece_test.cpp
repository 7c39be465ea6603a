#include "binade/data/tokenizer_json/wordpiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "binade/base/error.h"
#include "binade/data/tokenizer_json/tokenizer_json.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> pieces = {"[UNK]", "un",   "##aff", "##able", "##a",
                                         "a",     "##ff", "##x",   "ü",      "##ü"};

std::vector<int32_t> ids_of(const WordPiece& model, const std::string& word) {
  EncodeScratch scratch;  // without words of another model
  scratch.budget = WorkBudget(word.size());
  std::vector<int32_t> ids;
  model.encode(word, scratch, ids);
  return ids;
}

WordPiece model_with(WordPieceOptions options) {
  options.unknown = "[UNK]";
  return {Vocabulary(pieces), std::move(options)};
}

// The example in BERT's own code.
TEST(WordPiece, TakesTheLongestPiece) {
  EXPECT_THAT(ids_of(model_with({}), "unaffable"), ElementsAre(1, 2, 3));
  EXPECT_THAT(ids_of(model_with({}), "üxü"), ElementsAre(8, 7, 9));
}

// "##aff" is taken and "##e" does not exist: the word is unknown though "##a ##ff" begins alike.
TEST(WordPiece, AWordIsMadeOfPiecesOrUnknown) {
  for (const char* word : {"unaffe", "b", "unb", "xun"})
    EXPECT_THAT(ids_of(model_with({}), word), ElementsAre(0)) << word;
}

// Characters count, not bytes.
TEST(WordPiece, LongWordsAreUnknown) {
  EXPECT_THAT(ids_of(model_with({.max_characters = 3}), "aüü"), ElementsAre(5, 9, 9));
  EXPECT_THAT(ids_of(model_with({.max_characters = 3}), "aüüü"), ElementsAre(0));
}

TEST(WordPiece, OtherPrefixes) {
  const Vocabulary vocabulary({"[UNK]", "a", "@b", "b"});
  EXPECT_THAT(ids_of(WordPiece(vocabulary, {.prefix = "@", .unknown = "[UNK]"}), "abb"),
              ElementsAre(1, 2, 2));
  // No token continues a word.
  EXPECT_THAT(ids_of(WordPiece(vocabulary, {.prefix = "##", .unknown = "[UNK]"}), "ab"),
              ElementsAre(0));
}

TEST(WordPiece, AnUnknownWordNeedsItsToken) {
  const WordPiece model(Vocabulary(pieces), {.unknown = "<unk>"});
  EXPECT_THAT(ids_of(model, "un"), ElementsAre(1));
  EXPECT_THAT(test::error_of([&] { ids_of(model, "b"); }),
              HasSubstr(R"(the word "b": expected tokens for it, or the unk_token)"));
}

// By comparing every token with every rest of the word.
std::vector<int32_t> ids_by_hand(const std::string& word) {
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin < word.size();) {
    size_t longest = 0;
    int32_t best = -1;
    for (size_t id = 1; id < pieces.size(); ++id) {
      const bool continues = pieces[id].starts_with("##");
      const std::string text = pieces[id].substr(continues ? 2 : 0);
      if (continues != (begin > 0) || word.compare(begin, text.size(), text) != 0) continue;
      if (text.size() > longest) longest = text.size(), best = static_cast<int32_t>(id);
    }
    if (best < 0) return {0};
    ids.push_back(best);
    begin += longest;
  }
  return ids;
}

TEST(WordPiece, EveryShortWord) {
  const WordPiece model = model_with({});
  EncodeScratch scratch;
  constexpr std::string_view letters = "afxu";
  int64_t known = 0;
  for (int number = 0; number < 1 << 14; ++number) {
    std::string word = number % 3 == 0 ? "un" : "a";
    for (int rest = number; rest > 0; rest /= 4) word += letters[static_cast<size_t>(rest % 4)];
    scratch.budget = WorkBudget(word.size());
    std::vector<int32_t> ids;
    model.encode(word, scratch, ids);
    ASSERT_EQ(ids, ids_by_hand(word)) << word;
    known += ids[0] != 0;
  }
  EXPECT_GT(known, 300);
}

// At each character begins a token of 4,097 that is never complete.
TEST(WordPiece, WorkIsBounded) {
  const WordPiece model(Vocabulary({"[UNK]", "a", "##a", "##" + std::string(4096, 'a') + "c"}),
                        {.unknown = "[UNK]", .max_characters = 1 << 20});
  EXPECT_THAT(test::error_of([&] { ids_of(model, std::string(20'000, 'a') + 'b'); }),
              HasSubstr("steps for 20001 bytes of text"));
}

TEST(WordPiece, DecodesWithSpacesBetweenWords) {
  const auto tokenizer = tokenizer_json_of(
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
      R"("pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":null,)"
      R"("decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)"
      R"("model":{"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##",)"
      R"("max_input_chars_per_word":9,"vocab":{"?":0,"it":1,"'":2,"s":3,"##em":4,".":5,"do":6}}})",
      "test");
  const auto ids = tokenizer->encode("do it's item. Do");
  EXPECT_THAT(ids, ElementsAre(6, 1, 2, 3, 1, 4, 5, 0));
  // Without cleanup: "do it ' s item . ?".
  EXPECT_EQ(tokenizer->decode(ids), "do it ' s item.?");
}

}  // namespace
}  // namespace binade::data
