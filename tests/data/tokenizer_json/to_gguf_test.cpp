#include "binade/data/tokenizer_json/to_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/json.h"
#include "binade/data/tokenizer.h"
#include "binade/data/tokenizer_json/from_gguf.h"
#include "binade/io/file.h"
#include "data/small_model.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "support/paths.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

fs::path golden_tokenizer(const std::string& name) {
  return fs::path(test::golden_dir()) / "tokenizers" / (name + ".json");
}

// A file with the keys of the tokenizer in a folder.
fs::path written(const TemporaryFolder& folder, int64_t vocab,
                 const nn::LanguageModelConfig& other = {}) {
  nn::LanguageModelConfig config = other;
  config.vocab = vocab;
  io::gguf::Writer out;
  add_gguf_tokenizer(out, folder.path(), config);
  out.write(folder / "out.gguf");
  return folder / "out.gguf";
}

// By llama.cpp's name of its split pattern; empty: one of SentencePiece's kind.
struct Kind {
  const char* tokenizer;
  const char* pre;
};

class GgufTokenizers : public ::testing::TestWithParam<Kind> {};

// The ids that the tokenizers package recorded, through a file and back.
TEST_P(GgufTokenizers, KeepTheIdsOfThePackage) {
  const auto& [name, pre] = GetParam();
  const TemporaryFolder folder;
  fs::copy_file(golden_tokenizer(name), folder / "tokenizer.json");
  const auto source = open_tokenizer(folder.path().string());
  const fs::path path = written(folder, source->vocab() + 7);
  const io::gguf::File file(path);
  EXPECT_EQ(file.key("tokenizer.ggml.pre").text(), pre);
  EXPECT_EQ(file.key("tokenizer.ggml.tokens").count(), source->vocab() + 7);
  const auto again = open_tokenizer(path.string());
  EXPECT_EQ(again->vocab(), source->vocab());
  EXPECT_EQ(again->template_ids().before, source->template_ids().before);
  const json::Document cases =
      json::parse(io::read_text(golden_tokenizer(std::string(name) + ".cases"), "test", 1 << 28),
                  {"test", name});
  for (const json::Value& item : cases.root().at("encoded").array()) {
    std::vector<int64_t> ids;
    for (const json::Value& id : item.array()[1].array()) ids.push_back(id.integer(0, INT32_MAX));
    EXPECT_EQ(again->encode(item.array()[0].string()), ids) << item.array()[0].string();
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufTokenizers,
                         ::testing::Values(Kind{"gpt2", "gpt-2"}, Kind{"llama3", "llama-bpe"},
                                           Kind{"qwen", "qwen2"}, Kind{"bytes", "gpt-2"},
                                           Kind{"llama2", "default"}, Kind{"gemma", "default"}),
                         [](const auto& info) { return std::string(info.param.tokenizer); });

TEST(ToGguf, RefusesWhatLlamaCppHasNoNameFor) {
  const std::pair<const char*, const char*> refused[] = {{"o200k", "the split pattern [^"},
                                                         {"deepseek", "pre_tokenizer"},
                                                         {"added", "normalizer"},
                                                         {"neox", "a space in front of every text"},
                                                         {"metaspace_first", "byte fallback"},
                                                         {"behaviors", "pre_tokenizer"}};
  for (const auto& [name, part] : refused) {
    const TemporaryFolder folder;
    fs::copy_file(golden_tokenizer(name), folder / "tokenizer.json");
    EXPECT_THAT(test::error_of([&] { written(folder, 2000); }), HasSubstr(part)) << name;
  }
}

TEST(ToGguf, SentencePieceModelsKeepPiecesAndScores) {
  const TemporaryFolder folder;
  folder.put("tokenizer.model", small_model(TokenizerKind::bpe));
  const auto source = open_tokenizer(folder.path().string());
  const fs::path path = written(folder, source->vocab());
  const io::gguf::File file(path);
  EXPECT_EQ(file.key("tokenizer.ggml.model").text(), "llama");
  EXPECT_EQ(file.key("tokenizer.ggml.scores").count(), source->vocab());
  EXPECT_EQ(file.key("tokenizer.ggml.token_type").integers().at(0), 2);  // <unk>
  EXPECT_FALSE(file.key("tokenizer.ggml.add_bos_token").flag());
  const auto again = open_tokenizer(path.string());
  for (const char* text : {"the quick brown fox", " two  spaces\n\n", "\xE4\xB8\xAD x", ""})
    EXPECT_EQ(again->encode(text), source->encode(text)) << text;
  folder.put("tokenizer.model", small_model(TokenizerKind::unigram));
  EXPECT_THAT(test::error_of([&] { written(folder, 2000); }), HasSubstr("a unigram model"));
}

TEST(ToGguf, SpecialTokensAndTemplate) {
  const TemporaryFolder folder;
  folder.put("tokenizer.json", io::read_text(golden_tokenizer("gpt2"), "test", 1 << 28));
  folder.put("chat_template.jinja", "{{ messages }}");
  const io::gguf::File file(written(folder, 600, {.bos = 3, .eos = {7, 9}}));
  const auto id = [&](const char* role) {
    return file.key("tokenizer.ggml." + std::string(role) + "_token_id").integer(0, 600);
  };
  EXPECT_EQ(id("bos"), 3);
  EXPECT_EQ(id("eos"), 7);
  EXPECT_EQ(id("eot"), 9);
  EXPECT_EQ(file.key("tokenizer.chat_template").text(), "{{ messages }}");
  const auto tokens = file.key("tokenizer.ggml.tokens").texts();
  EXPECT_EQ(tokens.at(599), "[PAD599]");
  EXPECT_EQ(file.key("tokenizer.ggml.token_type").integers().at(599), 5);
  EXPECT_THAT(test::error_of([&] { written(folder, 300); }),
              HasSubstr("at most the model's 300 pieces"));
}

// A run's bytes have no tokenizer file: 256 tokens without merges.
TEST(ToGguf, Bytes) {
  const TemporaryFolder folder;
  const fs::path path = written(folder, 256);
  const auto tokenizer = open_tokenizer(path.string());
  EXPECT_THAT(tokenizer->encode("a\n\xC3\xA4"), ElementsAre('a', '\n', 0xC3, 0xA4));
  EXPECT_EQ(tokenizer_of(path, 256)->vocab(), 256);
}

}  // namespace
}  // namespace binade::data
