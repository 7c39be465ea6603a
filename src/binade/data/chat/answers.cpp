#include "binade/data/chat/answers.h"

#include <algorithm>
#include <utility>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/chat/jinja/python_text.h"

namespace binade::data {
namespace {

// In the place of an answer's content: characters for private use, which templates leave alone.
constexpr std::string_view answer_mark = "\xEE\x80\x80\xEF\xA3\xBF\xEE\x80\x80";

bool is_answer(const Message& message) { return message.role == "assistant"; }

// What ends an answer, of the text behind its content: up to the end of a line.
std::string end_in(std::string_view after) {
  const size_t word = after.find_first_not_of(" \t\r\n");
  if (word == std::string_view::npos) return {};
  return std::string(jinja::stripped(after.substr(0, after.find('\n', word)), jinja::Side::right));
}

}  // namespace

ChatVariables::ChatVariables(const ChatTemplate& chat, std::span<const Message> messages,
                             const jinja::Value& tools)
    : program_(tools.is_true() && chat.tool_program ? chat.tool_program.get() : chat.program.get()),
      others_{{"tools", tools}, {"documents", jinja::Value(nullptr)}} {
  messages_.reserve(messages.size());
  for (const Message& message : messages) messages_.push_back(template_value(message));
  const auto add_token = [&](const std::string& name, const std::string& text) {
    if (!text.empty()) others_.emplace_back(name, jinja::Value(text));
  };
  add_token("bos_token", chat.tokens.bos);
  add_token("eos_token", chat.tokens.eos);
  for (const auto& [name, text] : chat.tokens.others) add_token(name, text);
}

jinja::Rendered ChatVariables::render(size_t count, bool add_generation_prompt,
                                      const std::tm& now) const {
  jinja::Template::Variables variables = others_;
  variables.emplace_back(
      "messages", jinja::Value::list(
                      {messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(count)}));
  variables.emplace_back("add_generation_prompt", jinja::Value(add_generation_prompt));
  return program_->render(variables, now);
}

void set_answer_texts(ChatTemplate& chat) {
  const Message messages[] = {{"user", "q"}, {"assistant", std::string(answer_mark)}};
  try {
    const ChatVariables variables(chat, messages, jinja::Value(nullptr));
    const std::string prompt = variables.render(1, true, training_date()).text,
                      text = variables.render(2, false, training_date()).text;
    const size_t at = text.rfind(answer_mark);
    if (at == std::string::npos) return;
    chat.answer_end = end_in(std::string_view(text).substr(at + answer_mark.size()));
    if (text.starts_with(prompt) && prompt.size() <= at)
      chat.before_answer = text.substr(prompt.size(), at - prompt.size());
  } catch (const Error&) {
    // The template wants another conversation; it says so when it gets one.
  }
}

AnswerFinder::AnswerFinder(const ChatTemplate& chat, std::span<const Message> messages,
                           const jinja::Value& tools)
    : chat_(chat), messages_(messages), tools_(tools), variables_(chat, messages, tools) {}

RenderedChat AnswerFinder::find() {
  jinja::Rendered rendered = variables_.render(messages_.size(), false, now_);
  result_.text = std::move(rendered.text);
  if (variables_.program().has_generation()) {
    result_.answers = std::move(rendered.generated);
  } else if (!find_by_marks()) {
    find_by_prefixes();
  }
  return std::move(result_);
}

// The content as it stands at a place of the text, with `next` behind it: perhaps without white
// space at its ends. Null if it stands there in no such form.
std::string_view AnswerFinder::content_at(size_t at, const std::string& content,
                                          std::string_view next) const {
  const std::string_view rest = std::string_view(result_.text).substr(at);
  const std::string_view forms[] = {content, jinja::stripped(content, jinja::Side::both),
                                    jinja::stripped(content, jinja::Side::left),
                                    jinja::stripped(content, jinja::Side::right)};
  for (const std::string_view form : forms) {
    if (rest.starts_with(form) && rest.substr(form.size()).starts_with(next))
      return rest.substr(0, form.size());
  }
  return {};
}

// Renders the conversation with a mark in place of every answer: what is between the marks stands
// between the answers. Two renderings, however long the conversation is. False if it is not so.
bool AnswerFinder::find_by_marks() {
  std::vector<Message> marked(messages_.begin(), messages_.end());
  size_t count = 0;
  for (Message& message : marked) {
    if (!is_answer(message)) continue;
    if (!message.members.is_undefined() || message.content.find(answer_mark) != std::string::npos)
      return false;
    message.content = answer_mark;
    ++count;
  }
  const std::string text =
      ChatVariables(chat_, marked, tools_).render(marked.size(), false, now_).text;
  const std::vector<std::string_view> between = jinja::split(text, answer_mark, -1);
  if (between.size() != count + 1 || !result_.text.starts_with(between[0])) return false;
  std::vector<std::pair<size_t, size_t>> answers;
  size_t at = between[0].size(), i = 0;
  for (const Message& message : messages_) {
    if (!is_answer(message)) continue;
    const std::string_view before = between[i++], next = between[i];
    const std::string_view content = content_at(at, message.content, next);
    if (content.data() == nullptr) return false;
    const size_t begin =
        at - (before.ends_with(chat_.before_answer) ? chat_.before_answer.size() : 0);
    at += content.size();
    answers.emplace_back(begin,
                         at + (next.starts_with(chat_.answer_end) ? chat_.answer_end.size() : 0));
    at += next.size();
  }
  if (at != result_.text.size()) return false;
  // The prompts that the model will see must be what stands before its answers.
  for (size_t k = 0; k < messages_.size() && !answers.empty(); ++k) {
    if (!is_answer(messages_[k])) continue;
    if (variables_.render(k, true, now_).text != result_.text.substr(0, answers[0].first))
      return false;
    break;
  }
  result_.answers = std::move(answers);
  return true;
}

void AnswerFinder::refuse(size_t index, std::string expected, std::string found) const {
  fail("chat", {.argument = variables_.program().file(),
                .expected = std::move(expected),
                .found = std::move(found) + " at message " + std::to_string(index + 1),
                .hint = "the template " + variables_.program().file() +
                        " does not show which text is the answer: put {% generation %} and {% "
                        "endgeneration %} around answers in it, or give --chat FORMAT"});
}

// An answer stands behind the prompt for it: the conversation before it, rendered to be continued.
void AnswerFinder::find_by_prefixes() {
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (!is_answer(messages_[i])) continue;
    const std::string prompt = variables_.render(i, true, now_).text;
    if (!result_.text.starts_with(prompt))
      refuse(i, "a conversation that begins with the prompt for each of its answers",
             "another text");
    result_.answers.emplace_back(prompt.size(), end_of(i, prompt.size()));
  }
}

size_t AnswerFinder::end_of(size_t index, size_t begin) const {
  const std::string& text = result_.text;
  const std::string& end = chat_.answer_end;
  std::string until = text;
  if (index + 1 < messages_.size()) until = variables_.render(index + 1, false, now_).text;
  if (text.starts_with(until)) {
    const size_t at = end.empty() ? std::string::npos : until.rfind(end);
    return at == std::string::npos || at < begin ? until.size() : at + end.size();
  }
  // What is written for the last message only, such as EOS, is not in the text.
  const size_t at = end.empty() ? std::string::npos : text.find(end, begin);
  if (at == std::string::npos || messages_[index].content.find(end) != std::string::npos)
    refuse(index, "a conversation that begins with each of its parts", "another text");
  return at + end.size();
}

}  // namespace binade::data
