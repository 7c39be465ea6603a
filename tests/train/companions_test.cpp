#include "binade/train/companions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "binade/data/chat/chat_template.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::IsEmpty;

class Companions : public ::testing::Test {
 protected:
  Companions() {
    std::filesystem::create_directory(folder_ / "model");
    folder_.put("model/config.json", "{}");
    std::filesystem::copy(testing::golden("chat/byte_level.json"),
                          folder_ / "model/tokenizer.json");
    tokenizer_ = data::open_tokenizer((folder_ / "model").string());
    config_.data.tokenizer = config_.model.init_from = (folder_ / "model").string();
    config_.data.source =
        folder_.put("data.jsonl", R"({"prompt": "a", "completion": "b"})").string();
  }
  io::CompanionFiles files() const { return companions_of(config_, *tokenizer_, folder_.path()); }
  // The file after training on ChatML, whose answers end with token 4.
  std::string with_chatml(const std::string& generation_config) {
    folder_.put("model/generation_config.json", generation_config);
    config_.data.chat = data::ChatFormat::chatml;
    return files().at("generation_config.json");
  }

  testing::TemporaryFolder folder_;
  Config config_ = small_config();
  std::unique_ptr<const data::Tokenizer> tokenizer_;
};

TEST_F(Companions, AreThoseOfTheModel) {
  folder_.put("model/chat_template.jinja", "[INST] [/INST]");
  folder_.put("model/generation_config.json", "{\"eos_token_id\": 2}");
  EXPECT_EQ(files().at("chat_template.jinja"), "[INST] [/INST]");
  EXPECT_EQ(files().at("generation_config.json"), "{\"eos_token_id\": 2}");
  config_.data.tokenizer = "bytes";
  config_.model.init_from.clear();
  EXPECT_THAT(files(), IsEmpty());
}

// A chat template belongs to the tokenizer, what ends a text to the model.
TEST_F(Companions, AnotherTokenizerBringsItsTemplate) {
  folder_.put("model/chat_template.jinja", "[INST] [/INST]");
  folder_.put("model/generation_config.json", "{\"eos_token_id\": 2}");
  std::filesystem::create_directory(folder_ / "other");
  std::filesystem::copy(folder_ / "model/tokenizer.json", folder_ / "other/tokenizer.json");
  folder_.put("other/chat_template.jinja", "<|im_start|><|im_end|>");
  folder_.put("other/generation_config.json", "{\"eos_token_id\": 9}");
  const auto expect = [this](const char* chat_template) {
    const io::CompanionFiles found = files();
    EXPECT_EQ(found.at("chat_template.jinja"), chat_template) << config_.data.tokenizer;
    EXPECT_EQ(found.at("generation_config.json"), "{\"eos_token_id\": 2}")
        << config_.data.tokenizer;
  };
  config_.data.tokenizer = (folder_ / "other").string();
  expect("<|im_start|><|im_end|>");
  config_.data.tokenizer = (folder_ / "other/tokenizer.json").string();
  expect("<|im_start|><|im_end|>");
  config_.data.source = folder_.put("text.txt", "plain text has no conversations").string();
  expect("[INST] [/INST]");
  config_.data.tokenizer = "bytes";
  config_.data.source = (folder_ / "data.jsonl").string();
  expect("[INST] [/INST]");
  // Without a model nothing says what ends a text.
  config_.model.init_from.clear();
  config_.data.tokenizer = (folder_ / "other").string();
  EXPECT_EQ(files().at("chat_template.jinja"), "<|im_start|><|im_end|>");
  EXPECT_EQ(files().count("generation_config.json"), 0u);
}

TEST_F(Companions, AFormatOfTheRunsOwnBringsItsTemplateAndItsEnd) {
  folder_.put("model/chat_template.jinja", "[INST] [/INST]");
  EXPECT_EQ(with_chatml("{\"eos_token_id\": 2, \"top_k\": 5}"),
            "{\"eos_token_id\": [2, 4], \"top_k\": 5}");
  EXPECT_EQ(files().at("chat_template.jinja"), data::jinja_of(data::ChatFormat::chatml));
  EXPECT_EQ(with_chatml("{\"a\": 1, \"eos_token_id\": [2,\n 0]}"),
            "{\"a\": 1, \"eos_token_id\": [2, 0, 4]}");
  EXPECT_EQ(with_chatml("{\"eos_token_id\":4}"), "{\"eos_token_id\":[4]}");
  EXPECT_EQ(with_chatml("{\"eos_token_id\": null }"), "{\"eos_token_id\": [4] }");
  EXPECT_EQ(with_chatml("{\"top_k\": 5}"), "{\"eos_token_id\": [4], \"top_k\": 5}");
  EXPECT_EQ(with_chatml("{}"), "{\"eos_token_id\": [4]}");
  std::filesystem::remove(folder_ / "model/generation_config.json");
  EXPECT_EQ(files().at("generation_config.json"), "{\"eos_token_id\": [4]}");
}

}  // namespace
}  // namespace binade::train
