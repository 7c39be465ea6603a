#include "binade/train/conversation.h"

#include <utility>

namespace binade::train {

Conversation::Conversation(data::ChatTemplate chat, const data::Tokenizer& tokenizer)
    : chat_(std::move(chat)), tokenizer_(&tokenizer) {}

std::vector<int64_t> Conversation::ask(std::string message) {
  messages_.push_back({"user", std::move(message)});
  std::vector<data::Message> answered = messages_;
  answered.push_back({"assistant", ""});
  const data::RenderedChat rendered = data::render(chat_, answered, "conversation");
  std::string text = rendered.text.substr(0, rendered.answers.back().first);
  // Templates write this before an answer that is there, not to ask for one.
  text.resize(text.size() - chat_.before_answer.size());
  return tokenizer_->encode(text);  // the template has its own BOS
}

void Conversation::add_answer(std::string text) {
  messages_.push_back({"assistant", std::move(text)});
}

void Conversation::end_with_answer(ContinuationOptions& options) const {
  const std::string end = data::answer_end(chat_);
  const std::vector<int64_t> ids = tokenizer_->encode(end);
  if (ids.size() == 1) options.generate.eos.push_back(ids[0]);
  // Tokenizers without special tokens spell the end out.
  if (ids.size() > 1) options.stops.push_back(end);
}

}  // namespace binade::train
