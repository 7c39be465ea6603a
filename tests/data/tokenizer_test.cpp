#include "binade/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "data/small_model.h"
#include "io/temporary_folder.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Tokenizer, BytesAreTheirOwnIds) {
  const auto tokenizer = open_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocab(), 256);
  EXPECT_EQ(tokenizer->model(), "");
  EXPECT_THAT(tokenizer->encode("a\xff"), ElementsAre('a', 255));
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{'a', 255, 300, -1}), "a\xff??");
}

TEST(Tokenizer, OfAModelsFolder) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(tokenizer_of(folder.path(), 256)->model(), "");
  EXPECT_THAT([&] { tokenizer_of(folder.path(), 50257); },
              ThrowsMessage<Error>(HasSubstr("a tokenizer: the model has 50257 tokens")));
  folder.put("tokenizer.model", small_model());
  EXPECT_EQ(tokenizer_of(folder.path(), 1000)->vocab(), small_vocab);
  EXPECT_THAT([&] { tokenizer_of(folder.path(), 256); },
              ThrowsMessage<Error>(HasSubstr("at most the model's 256 pieces, found 320")));
}

}  // namespace
}  // namespace binade::data
