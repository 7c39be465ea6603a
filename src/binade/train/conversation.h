#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/data/chat/chat_template.h"
#include "binade/data/tokenizer.h"
#include "binade/train/run/continuation.h"

namespace binade::train {

// The ids of a conversation up to the model's next answer: those of transformers'
// apply_chat_template with add_generation_prompt, on this day.
std::vector<int64_t> ids_before_answer(const data::ChatTemplate& chat,
                                       const data::Tokenizer& tokenizer,
                                       const std::vector<data::Message>& messages);

// Makes a continuation an answer, and end with it.
void end_with_answer(const data::ChatTemplate& chat, const data::Tokenizer& tokenizer,
                     ContinuationOptions& options);

// A conversation with a model, as the prompts that ask it for its next answer.
class Conversation {
 public:
  // The tokenizer must outlive it.
  Conversation(data::ChatTemplate chat, const data::Tokenizer& tokenizer);

  // Adds a message of the user and returns the ids of the conversation up to the model's answer.
  std::vector<int64_t> ask(std::string message);
  // Adds the model's answer.
  void add_answer(std::string text);

 private:
  data::ChatTemplate chat_;
  const data::Tokenizer* tokenizer_;
  std::vector<data::Message> messages_;
};

}  // namespace binade::train
