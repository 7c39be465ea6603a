#include "binade/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/data/tokenizer_json/bpe_trainer.h"
#include "binade/data/tokenizer_json/tokenizer_json.h"
#include "data/small_model.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Tokenizer, BytesAreTheirOwnIds) {
  const auto tokenizer = open_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocab(), 256);
  EXPECT_EQ(tokenizer->model(), "");
  EXPECT_THAT(tokenizer->encode("a\xff"), ElementsAre('a', 255));
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{'a', 255, 300, -1}), "a\xff??");
}

// Some 7 MB in blocks of odd sizes, in several rounds, have the ids of the whole text.
TEST(Tokenizer, AStreamHasTheIdsOfTheWholeText) {
  const int before = threads();
  set_threads(2);
  std::string text;
  while (text.size() < (size_t{7} << 20))
    text += small_training_text() + std::to_string(text.size()) + "\n";
  const std::string bpe =
      write_tokenizer_json(train_byte_level_bpe(small_training_text(), 300, "small"));
  for (const auto& tokenizer : {open_tokenizer("bytes"), tokenizer_json_of(bpe, "bpe.json")}) {
    std::vector<int32_t> ids;
    size_t read = 0, done = 0;
    tokenizer->encode_stream(
        [&](std::string& block) {
          const size_t count = std::min<size_t>(text.size() - read, 999'983);
          block.append(text, read, count);
          read += count;
          return count > 0;
        },
        [&](std::span<const int32_t> part, size_t end) {
          EXPECT_GT(end, done);
          done = end;
          ids.insert(ids.end(), part.begin(), part.end());
        });
    EXPECT_EQ(done, text.size());
    const std::vector<int64_t> whole = tokenizer->encode(text);
    EXPECT_TRUE(std::ranges::equal(ids, whole));
  }
  set_threads(before);
}

TEST(Tokenizer, OfAModelsFolder) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(tokenizer_of(folder.path(), 256)->model(), "");
  EXPECT_THAT(test::error_of([&] { tokenizer_of(folder.path(), 50257); }),
              HasSubstr("a tokenizer: the model has 50257 tokens"));
  folder.put("tokenizer.model", small_model());
  EXPECT_EQ(tokenizer_of(folder.path(), 1000)->vocab(), small_vocab);
  EXPECT_THAT(test::error_of([&] { tokenizer_of(folder.path(), 256); }),
              HasSubstr("at most the model's 256 pieces, found 320"));
}

}  // namespace
}  // namespace binade::data
