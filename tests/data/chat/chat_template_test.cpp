#include "binade/data/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/tokenizer_json/tokenizer_json.h"
#include "io/temporary_folder.h"

namespace binade::data {
namespace {

using binade::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Message> messages_of(const json::Value& list) {
  std::vector<Message> messages;
  for (const json::Value& one : list.array())
    messages.push_back({one.at("role").string(), one.at("content").string()});
  return messages;
}

// Texts and ids that transformers' apply_chat_template makes (tests/golden/chat.py).
TEST(ChatTemplate, RendersAndEncodesAsTransformers) {
  const std::string text = binade::testing::content_of(binade::testing::golden("chat/cases.json"));
  const json::Document document = json::parse(text, {"test", "cases.json"});
  const json::Value& templates = document.root().at("templates");
  std::map<std::string, std::unique_ptr<const Tokenizer>> tokenizers;
  for (const char* name : {"byte_level", "metaspace"})
    tokenizers[name] =
        open_tokenizer_json(binade::testing::golden("chat/" + std::string(name) + ".json"));
  size_t cases = 0;
  for (const json::Value& one : document.root().at("cases").array()) {
    const std::string& name = one.at("template").string();
    const json::Value& made = templates.at(name);
    const ChatTemplate chat = recognize_chat_template(
        made.at("jinja").string(), {made.at("bos").string(), made.at("eos").string()}, name);
    const RenderedChat rendered = render(chat, messages_of(one.at("messages")), name);
    EXPECT_EQ(rendered.text, one.at("text").string()) << name;
    std::vector<int64_t> ids;
    for (const json::Value& id : one.at("ids").array()) ids.push_back(id.integer(0, 1000));
    EXPECT_EQ(tokenizers.at(one.at("tokenizer").string())->encode(rendered.text), ids) << name;
    ++cases;
  }
  EXPECT_GT(cases, 120u);
}

// The templates that are written for transformers are those whose texts it made above.
TEST(ChatTemplate, TemplatesOfItsOwnAreRecognized) {
  const std::string text = binade::testing::content_of(binade::testing::golden("chat/cases.json"));
  const json::Document document = json::parse(text, {"test", "cases.json"});
  const std::pair<ChatFormat, const char*> formats[] = {{ChatFormat::chatml, "binade-chatml"},
                                                        {ChatFormat::llama3, "binade-llama3"},
                                                        {ChatFormat::gemma, "binade-gemma"},
                                                        {ChatFormat::mistral, "binade-mistral"}};
  for (const auto& [format, name] : formats) {
    EXPECT_EQ(jinja_of(format), document.root().at("templates").at(name).at("jinja").string());
    const SpecialTokens tokens{"<s>", "</s>"};
    const ChatTemplate made = recognize_chat_template(jinja_of(format), tokens, name),
                       expected = chat_template_of(format, tokens);
    EXPECT_EQ(made.format, format);
    const Message messages[] = {{"user", " q "}, {"assistant", " a "}};
    EXPECT_EQ(render(made, messages, name).text, render(expected, messages, name).text);
    EXPECT_EQ(answer_end(made), answer_end(expected));
  }
}

std::vector<std::string> answers_of(const ChatTemplate& chat) {
  const Message messages[] = {
      {"user", "q"}, {"assistant", "one"}, {"user", "r"}, {"assistant", " two"}};
  const RenderedChat rendered = render(chat, messages, "test");
  std::vector<std::string> answers;
  for (const auto& [begin, end] : rendered.answers)
    answers.push_back(rendered.text.substr(begin, end - begin));
  return answers;
}

TEST(ChatTemplate, AnswersEndWithTheTokenThatEndsATurn) {
  const SpecialTokens tokens{"<s>", "</s>"};
  EXPECT_THAT(answers_of(chat_template_of(ChatFormat::chatml, tokens)),
              ElementsAre("one<|im_end|>", " two<|im_end|>"));
  EXPECT_THAT(answers_of(chat_template_of(ChatFormat::llama3, tokens)),
              ElementsAre("one<|eot_id|>", "two<|eot_id|>"));
  EXPECT_THAT(answers_of(chat_template_of(ChatFormat::gemma, tokens)),
              ElementsAre("one<end_of_turn>", "two<end_of_turn>"));
  EXPECT_THAT(answers_of(chat_template_of(ChatFormat::mistral, tokens)),
              ElementsAre("one</s>", " two</s>"));
}

std::string error_of(const std::string& jinja) {
  try {
    recognize_chat_template(jinja, {}, "chat_template.jinja");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatTemplate, OthersAreRefusedByName) {
  EXPECT_THAT(error_of("'<|im_start|>' '<|im_end|>' '<think>'"), HasSubstr("reasoning (Qwen3"));
  EXPECT_THAT(error_of("'[INST] <<SYS>>' '[/INST]'"), HasSubstr("Llama 2's"));
  EXPECT_THAT(error_of("'<|user|>' '<|assistant|>'"), HasSubstr("Zephyr's or Phi-3's"));
  EXPECT_THAT(error_of("{{ messages }}"), HasSubstr("another one"));
  EXPECT_THAT(error_of("{{ messages }}"), HasSubstr("train: --chat, generate: --chat-format"));
}

std::string refusal(const ChatTemplate& chat, const std::vector<Message>& messages) {
  try {
    render(chat, messages, "data.jsonl, example 3");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatTemplate, RolesAreChecked) {
  const ChatTemplate chatml = chat_template_of(ChatFormat::chatml, {});
  const ChatTemplate gemma = chat_template_of(ChatFormat::gemma, {});
  EXPECT_THAT(refusal(chatml, {{"tool", "x"}}), HasSubstr("example 3"));
  EXPECT_EQ(refusal(chatml, {{"user", "x"}, {"user", "y"}}), "no error");
  EXPECT_THAT(refusal(gemma, {{"user", "x"}, {"user", "y"}}), HasSubstr("message 2 of the user"));
  ChatTemplate gemma2 = gemma;
  gemma2.system = SystemMessage::refused;
  EXPECT_THAT(refusal(gemma2, {{"system", "x"}, {"user", "y"}}), HasSubstr("no system message"));
}

TEST(ChatTemplate, AFileOfItsOwnBeatsTheTokenizersConfiguration) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_chat_template(folder.path()));
  folder.put("tokenizer_config.json",
             R"({"bos_token": {"content": "<bos>"}, "eos_token": "</s>",
                 "chat_template": "{{ bos_token }} [INST] [/INST]"})");
  EXPECT_EQ(read_chat_template(folder.path())->format, ChatFormat::mistral);
  EXPECT_EQ(read_chat_template(folder.path())->eos, "</s>");
  folder.put("chat_template.jinja", "{{ bos_token }} <start_of_turn> <end_of_turn>");
  EXPECT_EQ(read_chat_template(folder.path())->format, ChatFormat::gemma);
  EXPECT_EQ(read_chat_template(folder.path())->bos, "<bos>");
  EXPECT_EQ(read_chat_template(folder.path(), ChatFormat::chatml)->format, ChatFormat::chatml);
}

TEST(ChatTemplate, OfSeveralTheDefaultIsTaken) {
  const TemporaryFolder folder;
  folder.put("tokenizer_config.json",
             R"({"chat_template": [{"name": "tool_use", "template": "{{ tools }}"},
                                   {"name": "default", "template": "[INST] [/INST]"}]})");
  EXPECT_EQ(read_chat_template(folder.path())->format, ChatFormat::mistral);
  folder.put("tokenizer_config.json",
             R"({"chat_template": [{"name": "rag", "template": "{{ documents }}"}]})");
  EXPECT_FALSE(read_chat_template(folder.path()));
}

// A tokenizer_config.json in the current folder is not that of bytes.
TEST(ChatTemplate, BytesHaveNoFolder) {
  const TemporaryFolder folder;
  folder.put("tokenizer_config.json",
             R"({"eos_token": "</s>", "chat_template": "[INST] [/INST]"})");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto none = chat_template_beside("bytes"),
             asked = chat_template_beside("bytes", ChatFormat::mistral),
             there = chat_template_beside("tokenizer.json");
  std::filesystem::current_path(before);
  EXPECT_FALSE(none);
  EXPECT_EQ(asked->eos, "");
  EXPECT_EQ(there->eos, "</s>");
}

}  // namespace
}  // namespace binade::data
