#include "binade/train/conversation.h"

#include <utility>

namespace binade::train {

std::vector<int64_t> ids_before_answer(const data::ChatTemplate& chat,
                                       const data::Tokenizer& tokenizer,
                                       std::vector<data::Message> messages) {
  messages.push_back({"assistant", ""});
  const data::RenderedChat rendered = data::render(chat, messages, "conversation");
  std::string text = rendered.text.substr(0, rendered.answers.back().first);
  // Templates write this before an answer that is there, not to ask for one.
  text.resize(text.size() - chat.before_answer.size());
  return tokenizer.encode(text);  // the template has its own BOS
}

void end_with_answer(const data::ChatTemplate& chat, const data::Tokenizer& tokenizer,
                     ContinuationOptions& options) {
  const std::string end = data::answer_end(chat);
  const std::vector<int64_t> ids = tokenizer.encode(end);
  if (ids.size() == 1) options.generate.eos.push_back(ids[0]);
  // Tokenizers without special tokens spell the end out.
  if (ids.size() > 1) options.stops.push_back(end);
}

Conversation::Conversation(data::ChatTemplate chat, const data::Tokenizer& tokenizer)
    : chat_(std::move(chat)), tokenizer_(&tokenizer) {}

std::vector<int64_t> Conversation::ask(std::string message) {
  messages_.push_back({"user", std::move(message)});
  return ids_before_answer(chat_, *tokenizer_, messages_);
}

void Conversation::add_answer(std::string text) {
  messages_.push_back({"assistant", std::move(text)});
}

}  // namespace binade::train
