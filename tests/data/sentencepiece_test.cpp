#include "binade/data/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "data/small_model.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SentencePieceKinds : public ::testing::TestWithParam<TokenizerKind> {};

TEST_P(SentencePieceKinds, TextComesBackAsItWas) {
  const auto tokenizer = sentencepiece_of(small_model(GetParam()), "small");
  EXPECT_EQ(tokenizer->vocab(), small_vocab);
  const std::string texts[] = {
      "",
      "\n",
      "the quick brown fox",
      "  two  spaces,\n\n\ttabs and \r\n line ends \n",
      "never seen: \xC3\xA4\xE2\x82\xAC\xF0\x9F\x8D\x8E",
      std::string("a zero \0 byte", 13),
      small_training_text(),
  };
  for (const std::string& text : texts) {
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    for (const int64_t id : ids) EXPECT_LT(id, small_vocab);
  }
  EXPECT_LT(tokenizer->encode(small_training_text()).size(), small_training_text().size() * 2 / 3);
}

TEST_P(SentencePieceKinds, TrainingIsDeterministic) {
  EXPECT_EQ(train_sentencepiece(small_training_text(), small_vocab, GetParam(), "again"),
            small_model(GetParam()));
}

TEST_P(SentencePieceKinds, IdsDoNotDependOnThreads) {
  const auto tokenizer = sentencepiece_of(small_model(GetParam()), "small");
  std::string text;
  for (int i = 0; i < 20; ++i) text += small_training_text();  // several chunks
  const int before = threads();
  set_threads(1);
  const auto one = tokenizer->encode(text);
  set_threads(3);
  EXPECT_EQ(tokenizer->encode(text), one);
  set_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SentencePieceKinds,
                         ::testing::Values(TokenizerKind::bpe, TokenizerKind::unigram),
                         [](const auto& info) {
                           return info.param == TokenizerKind::bpe ? "bpe" : "unigram";
                         });

TEST(SentencePiece, LongLinesWithoutEndsAreCutBetweenCharacters) {
  const auto tokenizer = sentencepiece_of(small_model(), "small");
  std::string text = "x";
  for (int i = 0; i < 60000; ++i) text += "\xE2\x82\xAC";  // euro signs across the chunks' ends
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(SentencePiece, IdsPastTheVocabularyAreQuestionMarks) {
  const auto tokenizer = sentencepiece_of(small_model(), "small");
  std::vector<int64_t> ids = tokenizer->encode("fox");
  ids.push_back(small_vocab);
  ids.push_back(-1);
  EXPECT_EQ(tokenizer->decode(ids), "fox??");
}

TEST(SentencePiece, VocabulariesThatDoNotFitTheTextAreRefused) {
  const std::string text = small_training_text();
  EXPECT_THAT(test::error_of([&] { train_sentencepiece(text, 262, TokenizerKind::bpe, "small"); }),
              AllOf(HasSubstr("small, --vocab 262"), HasSubstr("Vocabulary size is smaller")));
  EXPECT_THAT(
      test::error_of([&] { train_sentencepiece(text, 100000, TokenizerKind::unigram, "small"); }),
      HasSubstr("Vocabulary size too high"));
  EXPECT_THROW(train_sentencepiece("", 300, TokenizerKind::bpe, "empty"), Error);
}

}  // namespace
}  // namespace binade::data
