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
    const ChatTemplate chat = parse_chat_template(
        made.at("jinja").string(), {made.at("bos").string(), made.at("eos").string(), {}}, name);
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
TEST(ChatTemplate, TemplatesOfItsOwnWereRendered) {
  const std::string text = binade::testing::content_of(binade::testing::golden("chat/cases.json"));
  const json::Document document = json::parse(text, {"test", "cases.json"});
  const std::pair<ChatFormat, const char*> formats[] = {{ChatFormat::chatml, "binade-chatml"},
                                                        {ChatFormat::llama3, "binade-llama3"},
                                                        {ChatFormat::gemma, "binade-gemma"},
                                                        {ChatFormat::mistral, "binade-mistral"}};
  for (const auto& [format, name] : formats)
    EXPECT_EQ(jinja_of(format), document.root().at("templates").at(name).at("jinja").string());
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

std::string refusal(const ChatTemplate& chat, const std::vector<Message>& messages) {
  try {
    render(chat, messages, "data.jsonl, example 3");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatTemplate, RolesAreCheckedByTheTemplate) {
  const ChatTemplate chatml = chat_template_of(ChatFormat::chatml, {});
  const ChatTemplate gemma = chat_template_of(ChatFormat::gemma, {});
  EXPECT_EQ(refusal(chatml, {{"user", "x"}, {"user", "y"}}), "no error");
  EXPECT_EQ(refusal(gemma, {{"system", "x"}, {"user", "y"}}), "no error");
  const std::string twice = refusal(gemma, {{"user", "x"}, {"user", "y"}});
  EXPECT_THAT(twice, HasSubstr("data.jsonl, example 3: expected a conversation that the template"));
  EXPECT_THAT(twice, HasSubstr("must alternate"));
  EXPECT_THAT(twice, HasSubstr("see Binade's chat template, line 5"));
  EXPECT_THAT(refusal(gemma, {{"tool", "x"}}), HasSubstr("must alternate"));
}

TEST(ChatTemplate, AFileOfItsOwnBeatsTheTokenizersConfiguration) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_chat_template(folder.path()));
  folder.put("tokenizer_config.json",
             R"({"bos_token": {"content": "<bos>"}, "eos_token": "</s>",
                 "chat_template": "{{ bos_token }}one{{ pad_token }}{{ eos_token }}{{ sep_token }}",
                 "pad_token": "<pad>", "sep_token": null})");
  const auto text_of = [&](std::optional<ChatFormat> format = {}) {
    const Message messages[] = {{"user", "q"}};
    return render(*read_chat_template(folder.path(), format), messages, "test").text;
  };
  EXPECT_EQ(text_of(), "<bos>one<pad></s>");
  folder.put("chat_template.jinja", "two{{ bos_token }}");
  EXPECT_EQ(text_of(), "two<bos>");
  EXPECT_EQ(text_of(ChatFormat::chatml), "<|im_start|>user\nq<|im_end|>\n");
}

TEST(ChatTemplate, OfSeveralTheDefaultIsTakenOrThatForTools) {
  const TemporaryFolder folder;
  folder.put("tokenizer_config.json",
             R"({"chat_template": [{"name": "tool_use", "template": "tools {{ tools|length }}"},
                                   {"name": "default", "template": "default {{ tools }}"}]})");
  const auto chat = read_chat_template(folder.path());
  const Message messages[] = {{"user", "q"}};
  EXPECT_EQ(render(*chat, messages, "test").text, "default None");
  const jinja::Value tools = jinja::Value::list({jinja::Value("a"), jinja::Value("b")});
  EXPECT_EQ(render(*chat, messages, "test", tools).text, "tools 2");
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
  EXPECT_EQ(asked->tokens.eos, "");
  EXPECT_EQ(there->tokens.eos, "</s>");
}

}  // namespace
}  // namespace binade::data
