#include "binade/data/chat/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The texts of the answers that are found.
std::vector<std::string> found_answers(const ChatTemplate& chat,
                                       const std::vector<Message>& messages) {
  const RenderedChat rendered = render(chat, messages, "test");
  std::vector<std::string> texts;
  for (const auto& [begin, end] : rendered.answers)
    texts.push_back(rendered.text.substr(begin, end - begin));
  return texts;
}

ChatTemplate made_template(std::string_view jinja) {
  return parse_chat_template(jinja, {"<s>", "</s>", {}}, "model/chat_template.jinja");
}

Message with_members(const std::string& text) {
  const json::Document document = json::parse(text, {"test", "message"});
  return message_of(document.root());
}

const std::vector<Message> two_turns = {
    {"system", "s"}, {"user", "q"}, {"assistant", " one\n"}, {"user", "r"}, {"assistant", ""}};

// The templates of tests/golden/chat_jinja_templates.py.
ChatTemplate golden_template(const std::string& name) {
  const json::Document document =
      json::parse(binade::testing::content_of(binade::testing::golden("chat/jinja.json")),
                  {"test", "jinja.json"});
  return made_template(document.root().at("templates").at(name).string());
}

TEST(Answers, AreFoundInTemplatesOfManyKinds) {
  const auto answers = [](const char* name) {
    return found_answers(golden_template(name), two_turns);
  };
  EXPECT_THAT(answers("chatml"), ElementsAre(" one\n<|im_end|>", "<|im_end|>"));
  EXPECT_THAT(answers("llama"), ElementsAre("one<|eot|>", "<|eot|>"));
  EXPECT_THAT(answers("gemma"), ElementsAre("one<end_of_turn>", "<end_of_turn>"));
  EXPECT_THAT(answers("phi"), ElementsAre(" one\n<|end|>", "<|end|>"));
  EXPECT_THAT(answers("zephyr"), ElementsAre(" one\n</s>", "</s>"));
  EXPECT_THAT(answers("mistral"), ElementsAre(" one</s>", " </s>"));
  EXPECT_THAT(answers("llama2"), ElementsAre(" one </s>", "  </s>"));
  EXPECT_THAT(answers("command"), ElementsAre("one<|END|>", "<|END|>"));
  EXPECT_THAT(answers("deepseek"), ElementsAre(" one\n<\uFF5Cend\uFF5C>", "<\uFF5Cend\uFF5C>"));
  // Only the last answer has a place for thoughts.
  EXPECT_THAT(answers("qwen"),
              ElementsAre(" one\n<|im_end|>", "<think>\n\n</think>\n\n<|im_end|>"));
}

TEST(Answers, GenerationBlocksAreTaken) {
  EXPECT_THAT(found_answers(golden_template("granite"), two_turns),
              ElementsAre(" one\n<|end|>", "<|end|>"));
  EXPECT_THAT(found_answers(made_template("{% for m in messages %}{% if m.role == 'user' %}"
                                          "{% generation %}<{{ m.content }}>{% endgeneration %}"
                                          "{% endif %}{% endfor %}"),
                            two_turns),
              ElementsAre("<q>", "<r>"));
}

TEST(Answers, CallsOfToolsArePartOfThem) {
  const std::vector<Message> messages = {
      {"user", "Weather?"},
      with_members(R"({"role": "assistant", "content": null, "tool_calls": [{"type": "function",
          "function": {"name": "get", "arguments": {"city": "K"}}}]})"),
      with_members(R"({"role": "tool", "content": "dry"})"),
      {"assistant", "It is dry."}};
  EXPECT_THAT(
      found_answers(golden_template("llama"), messages),
      ElementsAre(R"({"name": "get", "parameters": {"city": "K"}}<|eot|>)", "It is dry.<|eot|>"));
  EXPECT_THAT(found_answers(golden_template("qwen"), messages),
              ElementsAre("<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"K\"}}\n"
                          "</tool_call><|im_end|>",
                          "<think>\n\n</think>\n\nIt is dry.<|im_end|>"));
}

TEST(Answers, ThatContainMarkersAreWhole) {
  EXPECT_THAT(found_answers(golden_template("chatml"),
                            {{"user", "q"},
                             {"assistant", "a<|im_end|>\n<|im_start|>user\nr<|im_end|>\n"},
                             {"user", "r"},
                             {"assistant", "\xEE\x80\x80\xEF\xA3\xBF\xEE\x80\x80"}}),
              ElementsAre("a<|im_end|>\n<|im_start|>user\nr<|im_end|>\n<|im_end|>",
                          "\xEE\x80\x80\xEF\xA3\xBF\xEE\x80\x80<|im_end|>"));
}

TEST(Answers, ThatCannotBeToldApartAreRefused) {
  // A prompt that asks for thoughts, which the conversation does not have.
  const ChatTemplate thinks = made_template(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant><think>{% endif %}");
  const std::string error =
      test::error_of([&] { render(thinks, two_turns, "data.jsonl, example 7"); });
  EXPECT_THAT(error, HasSubstr("data.jsonl, example 7"));
  EXPECT_THAT(error, HasSubstr("at message 3"));
  EXPECT_THAT(error, HasSubstr("model/chat_template.jinja does not show which text is the answer"));
  EXPECT_THAT(error, HasSubstr("{% generation %}"));
  EXPECT_THAT(error, HasSubstr("--chat FORMAT"));
  // A template that loses the system message when there is an answer.
  const ChatTemplate loses = made_template(
      "{% for m in messages %}{% if m.role != 'system' or messages|length < 3 %}"
      "{{ m.content }};{% endif %}{% endfor %}");
  EXPECT_THAT(test::error_of([&] {
                render(loses,
                       std::vector<Message>{{"system", "s"}, {"user", "q"}, {"assistant", "a"}},
                       "test");
              }),
              HasSubstr("begins with the prompt"));
}

TEST(Answers, NoneIsFoundWithoutAnAnswer) {
  EXPECT_THAT(found_answers(golden_template("chatml"), {{"user", "q"}}), IsEmpty());
}

TEST(Answers, TheirEndsAreKnown) {
  EXPECT_EQ(golden_template("phi").answer_end, "<|end|>");
  EXPECT_EQ(golden_template("llama2").answer_end, " </s>");
  EXPECT_EQ(golden_template("llama2").before_answer, " ");
  EXPECT_EQ(golden_template("zephyr").answer_end, "</s>");
  EXPECT_EQ(golden_template("harmony").answer_end, "<|return|>");
  EXPECT_EQ(made_template("{{ raise_exception('no') }}").answer_end, "");
}

}  // namespace
}  // namespace binade::data
