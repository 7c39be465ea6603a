#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/data/chat/chat_template.h"

// Which parts of a rendered conversation are answers. Templates say it by {% generation %} blocks,
// or it is derived from what they write for other conversations.
namespace binade::data {

// What a template is run with.
class ChatVariables {
 public:
  ChatVariables(const ChatTemplate& chat, std::span<const Message> messages,
                const jinja::Value& tools);

  // Renders the first `count` messages.
  jinja::Rendered render(size_t count, bool add_generation_prompt, const std::tm& now) const;
  const jinja::Template& program() const { return *program_; }

 private:
  const jinja::Template* program_;
  std::vector<jinja::Value> messages_;
  jinja::Template::Variables others_;
};

// Sets before_answer and answer_end by what the template writes around an answer. They stay empty
// if it refuses a question and an answer.
void set_answer_texts(ChatTemplate& chat);

// Renders a conversation and finds its answers.
class AnswerFinder {
 public:
  AnswerFinder(const ChatTemplate& chat, std::span<const Message> messages,
               const jinja::Value& tools);

  RenderedChat find();

 private:
  bool find_by_marks();
  void find_by_prefixes();
  size_t end_of(size_t index, size_t begin) const;
  std::string_view content_at(size_t at, const std::string& content, std::string_view next) const;
  [[noreturn]] void refuse(size_t index, std::string expected, std::string found) const;

  const ChatTemplate& chat_;
  std::span<const Message> messages_;
  jinja::Value tools_;
  ChatVariables variables_;
  const std::tm now_ = training_date();
  RenderedChat result_;
};

}  // namespace binade::data
