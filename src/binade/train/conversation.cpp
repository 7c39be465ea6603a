#include "binade/train/conversation.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace binade::train {

namespace {

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);
  return local;
}

}  // namespace

std::vector<int64_t> ids_before_answer(const data::ChatTemplate& chat,
                                       const data::Tokenizer& tokenizer,
                                       const std::vector<data::Message>& messages) {
  // The template has its own BOS.
  return tokenizer.encode(data::render_prompt(chat, messages, "conversation", local_time()));
}

void end_with_answer(const data::ChatTemplate& chat, const data::Tokenizer& tokenizer,
                     ContinuationOptions& options) {
  options.is_answer = true;
  const std::string& end = chat.answer_end;
  // The token, without the white space that some templates write before it.
  const std::vector<int64_t> ids =
      tokenizer.encode(end.substr(std::min(end.find_first_not_of(" \n"), end.size())));
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
