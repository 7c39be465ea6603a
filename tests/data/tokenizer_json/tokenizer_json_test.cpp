#include "binade/data/tokenizer_json/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/data/sentencepiece.h"
#include "binade/data/tokenizer_json/from_sentencepiece.h"
#include "binade/data/tokenizer_json/huggingface_files.h"
#include "binade/data/tokenizer_json/write.h"
#include "data/small_model.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TokenizerJson, OfBytesIsBytes) {
  const auto tokenizer = tokenizer_json_of(byte_tokenizer_json(), "bytes");
  EXPECT_EQ(tokenizer->vocab(), 256);
  EXPECT_THAT(tokenizer->encode("a\n\u00E4 "), ElementsAre('a', '\n', 0xC3, 0xA4, ' '));
  std::vector<int64_t> all(256);
  for (int64_t i = 0; i < 256; ++i) all[static_cast<size_t>(i)] = i;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(tokenizer->decode(all), bytes);
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{'a', 300, -1}), "a??");
}

// As transformers reads it: every member is there, and nothing is trimmed, prefixed or dropped.
TEST(TokenizerJson, IsWrittenWithEveryMember) {
  const ByteLevelBpe made{
      .tokens = {"<s>", "a", "b", "ab"},
      .merges = {{1, 2, 3}},
      .added_tokens =
          {{.id = 0, .content = "<s>", .lstrip = true, .normalized = false, .special = true}},
      .words = ByteLevelBpe::Words::gpt2};
  const auto byte_level = [](const char* use_regex) {
    return R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":)" +
           std::string(use_regex) + "}";
  };
  EXPECT_EQ(
      write_tokenizer_json(made),
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":0,)"
      R"("content":"<s>","single_word":false,"lstrip":true,"rstrip":false,"normalized":false,)"
      R"("special":true}],"normalizer":null,"pre_tokenizer":)" +
          byte_level("true") + R"(,"post_processor":null,"decoder":)" + byte_level("false") +
          R"(,"model":{"type":"BPE","dropout":null,"unk_token":null,)"
          R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
          R"("byte_fallback":false,"ignore_merges":false,"vocab":{"<s>":0,"a":1,"b":2,"ab":3},)"
          R"("merges":[["a","b"]]}})"
          "\n");
}

TEST(TokenizerJson, FromVocabAndMerges) {
  const testing::TemporaryFolder folder;
  folder.put("vocab.json",
             R"({"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u0120ab": 4, "<|endoftext|>": 6})");
  folder.put("merges.txt", "#version: 0.2\na b\n\u0120 ab\n");
  const auto tokenizer = open_tokenizer(folder.path().string());
  EXPECT_EQ(tokenizer->vocab(), 7);
  EXPECT_THAT(tokenizer->encode("ab ab  ab<|endoftext|>a"), ElementsAre(3, 4, 2, 4, 6, 0));
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{4, 6, 0}), " aba");
  // What a checkpoint carries gives the same ids.
  EXPECT_STREQ(tokenizer_file(tokenizer->model()), "tokenizer.json");
  EXPECT_EQ(tokenizer_json_of(std::string(tokenizer->model()), "again")->encode("ab  abab"),
            tokenizer->encode("ab  abab"));

  folder.put("merges.txt", "a b\na c\n");
  EXPECT_THAT(test::error_of([&] { open_tokenizer(folder.path().string()); }),
              HasSubstr("merges.txt, line 2"));
  folder.put("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  EXPECT_THAT(test::error_of([&] { open_tokenizer(folder.path().string()); }),
              HasSubstr("Qwen2Tokenizer"));
}

TEST(TokenizerJson, AFolderIsItsFirstTokenizer) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(test::error_of([&] { open_tokenizer(folder.path().string()); }),
              HasSubstr("none of them"));
  folder.put("vocab.json", "{}");
  folder.put("tokenizer.json", byte_tokenizer_json());
  EXPECT_EQ(open_tokenizer(folder.path().string())->vocab(), 256);
  EXPECT_EQ(tokenizer_of(folder.path(), 300)->vocab(), 256);
  EXPECT_THAT(test::error_of([&] { tokenizer_of(folder.path(), 200); }),
              HasSubstr("at most the model's 200 pieces, found 256"));
}

TEST(TokenizerJson, WhatTransformersNeedsBesideAModel) {
  const testing::TemporaryFolder folder;
  add_huggingface_files(folder.path(), 500);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));  // an unknown tokenizer stays unknown
  add_huggingface_files(folder.path(), 256);
  EXPECT_EQ(testing::content_of(folder / "tokenizer.json"), byte_tokenizer_json());
  const json::Document config =
      json::parse(testing::content_of(folder / "tokenizer_config.json"), {});
  EXPECT_EQ(config.root().at("tokenizer_class").string(), "PreTrainedTokenizerFast");
  const auto& classes = config.root().at("auto_map").at("AutoTokenizer").array();
  ASSERT_EQ(classes.size(), 2u);  // the slow class and the fast one
  for (const json::Value& one : classes) EXPECT_EQ(one.string(), "PreTrainedTokenizerFast");
  folder.put("tokenizer_config.json", "{}");
  add_huggingface_files(folder.path(), 256);
  EXPECT_EQ(testing::content_of(folder / "tokenizer_config.json"), "{}");
}

TEST(TokenizerJson, TransformersLearnsTheRolesOfSpecialTokens) {
  const testing::TemporaryFolder folder;
  folder.put("tokenizer.json", testing::content_of(testing::golden("tokenizers/bert.json")));
  add_huggingface_files(folder.path(), 500);
  const json::Document config =
      json::parse(testing::content_of(folder / "tokenizer_config.json"), {});
  const std::pair<const char*, const char*> roles[] = {{"unk_token", "[UNK]"},
                                                       {"pad_token", "[PAD]"},
                                                       {"cls_token", "[CLS]"},
                                                       {"sep_token", "[SEP]"}};
  for (const auto& [role, token] : roles) EXPECT_EQ(config.root().at(role).string(), token);
  EXPECT_EQ(config.root().find("mask_token"), nullptr);  // not in its vocabulary
}

// The library that made the model is the reference.
TEST(TokenizerJson, SentencePieceModelsKeepTheirIds) {
  const std::string text =
      small_training_text() + "  a\tb\n\n na\u00EFve \u4E2D\u6587 \U0001F600 12 ";
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::unigram}) {
    const auto model = sentencepiece_of(small_model(kind), "small");
    const auto json = sentencepiece_tokenizer_json(small_model(kind), "small");
    ASSERT_TRUE(json);
    const auto same = tokenizer_json_of(*json, "small.json");
    EXPECT_EQ(same->vocab(), model->vocab());
    const std::vector<int64_t> ids = model->encode(text);
    EXPECT_EQ(same->encode(text), ids);
    EXPECT_EQ(same->decode(ids), text);
  }
}

TEST(TokenizerJson, TextThatIsNotUtf8) {
  const auto tokenizer = tokenizer_json_of(byte_tokenizer_json(), "bytes");
  EXPECT_EQ(tokenizer->encode("a\xFF"), tokenizer->encode("a\uFFFD"));
  // Ids of half a character decode to its bytes.
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{0xE2, 0x82}), "\xE2\x82");
}

}  // namespace
}  // namespace binade::data
