#include "binade/train/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "binade/base/json.h"
#include "io/temporary_folder.h"

namespace binade::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Ids that transformers' apply_chat_template makes with add_generation_prompt
// (tests/golden/chat.py).
TEST(Conversation, AsksAsTransformersDoes) {
  const std::string text = testing::content_of(testing::golden("chat/cases.json"));
  const json::Document document = json::parse(text, {"test", "cases.json"});
  std::map<std::string, std::unique_ptr<const data::Tokenizer>> tokenizers;
  for (const std::string name : {"byte_level", "metaspace"})
    tokenizers[name] = data::open_tokenizer(testing::golden("chat/" + name + ".json").string());
  size_t cases = 0;
  for (const json::Value& one : document.root().at("prompts").array()) {
    const std::string& name = one.at("template").string();
    const json::Value& made = document.root().at("templates").at(name);
    Conversation conversation(
        data::parse_chat_template(made.at("jinja").string(),
                                  {made.at("bos").string(), made.at("eos").string(), {}}, name),
        *tokenizers.at(one.at("tokenizer").string()));
    std::vector<int64_t> ids;
    for (const json::Value& message : one.at("messages").array()) {
      const std::string& content = message.at("content").string();
      if (message.at("role").string() == "user") {
        ids = conversation.ask(content);
      } else {
        conversation.add_answer(content);
      }
    }
    std::vector<int64_t> expected;
    for (const json::Value& id : one.at("ids").array()) expected.push_back(id.integer(0, 1000));
    EXPECT_EQ(ids, expected) << name;
    ++cases;
  }
  EXPECT_GT(cases, 50u);
}

TEST(Conversation, AnswersEndWithATokenOrItsText) {
  const auto tokenizer = data::open_tokenizer(testing::golden("chat/byte_level.json").string()),
             bytes = data::open_tokenizer("bytes");
  const data::ChatTemplate chatml = data::chat_template_of(data::ChatFormat::chatml, {});
  ContinuationOptions options;
  end_with_answer(chatml, *tokenizer, options);
  EXPECT_THAT(options.generate.eos, ElementsAre(4));  // the place in the list of chat.py
  EXPECT_THAT(options.stops, IsEmpty());
  end_with_answer(chatml, *bytes, options);
  EXPECT_THAT(options.generate.eos, ElementsAre(4));
  EXPECT_THAT(options.stops, ElementsAre("<|im_end|>"));
  end_with_answer(data::chat_template_of(data::ChatFormat::mistral, {}), *bytes, options);
  EXPECT_EQ(options.stops.size(), 1u);  // a template without EOS has no end
}

}  // namespace
}  // namespace binade::train
