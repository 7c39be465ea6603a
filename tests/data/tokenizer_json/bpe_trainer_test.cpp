#include "binade/data/tokenizer_json/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/parallel.h"
#include "binade/data/tokenizer_json/tokenizer_json.h"
#include "binade/io/file.h"
#include "data/small_model.h"
#include "support/error_of.h"
#include "support/paths.h"

namespace binade::data {
namespace {

using ::testing::HasSubstr;

// tests/golden/tokenizer_json.py has the package learn from the same text.
TEST(BpeTrainer, LearnsWhatThePackageLearns) {
  const std::string path = test::golden_dir() + "/tokenizers/trained.json";
  const json::Document golden = json::parse(io::read_text(path, "test", 1 << 24), {"test", path});
  const json::Value& root = golden.root();
  const ByteLevelBpe learned = train_byte_level_bpe(root.at("text").string(),
                                                    root.at("vocab").integer(257, 1 << 20), "text");
  const auto& merges = root.at("merges").array();
  ASSERT_EQ(learned.merges.size(), merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto& [left, right, result] = learned.merges[i];
    EXPECT_EQ(learned.tokens[static_cast<size_t>(left)], merges[i].array()[0].string()) << i;
    EXPECT_EQ(learned.tokens[static_cast<size_t>(right)], merges[i].array()[1].string()) << i;
    EXPECT_EQ(learned.tokens[static_cast<size_t>(result)],
              merges[i].array()[0].string() + merges[i].array()[1].string());
  }
}

TEST(BpeTrainer, TheSameForAnyNumberOfThreads) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += small_training_text();
  const int before = threads();
  set_threads(1);
  const std::string one = write_tokenizer_json(train_byte_level_bpe(text, 400, "text"));
  set_threads(3);
  EXPECT_EQ(write_tokenizer_json(train_byte_level_bpe(text, 400, "text")), one);
  set_threads(before);
}

TEST(BpeTrainer, TextComesBackAsItWas) {
  const std::string text = small_training_text();
  const auto tokenizer =
      tokenizer_json_of(write_tokenizer_json(train_byte_level_bpe(text, 400, "text")), "trained");
  EXPECT_EQ(tokenizer->vocab(), 400);
  const std::string never = "  never seen: \u00E4\u20AC\U0001F34E\r\n\t\x01";
  for (const std::string& each : {text, never}) {
    const auto ids = tokenizer->encode(each);
    EXPECT_EQ(tokenizer->decode(ids), each);
  }
  EXPECT_LT(tokenizer->encode(text).size(), text.size() * 2 / 3);
  EXPECT_EQ(tokenizer->encode("<|endoftext|>"), std::vector<int64_t>{0});
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{0}), "");
}

TEST(BpeTrainer, RefusesVocabulariesThatDoNotFit) {
  EXPECT_THAT(test::error_of([&] { train_byte_level_bpe("aaaa", 256, "small"); }),
              HasSubstr("at least 257"));
  EXPECT_THAT(test::error_of([&] { train_byte_level_bpe("some text", 300, "small"); }),
              HasSubstr("small, --vocab 300: expected a text with pieces"));
}

}  // namespace
}  // namespace binade::data
