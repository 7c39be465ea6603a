#pragma once

#include "binade/data/sentencepiece.h"

namespace binade::data {

inline constexpr int64_t small_vocab = 320;

inline std::string small_training_text() {
  constexpr const char* syllables[] = {"ka", "lo", "mi", "run", "ten", "sa", "fox"};
  std::string text;
  for (int i = 0; i < 400; ++i) {
    for (int rest = i * 31 + 7; rest > 0; rest /= 7) text += syllables[rest % 7];
    text += i % 5 == 0 ? "\n\t" : i % 3 == 0 ? " " + std::to_string(i * i) + " " : " ";
  }
  return text;
}

// The file of a tokenizer that is quick to train.
inline const std::string& small_model(TokenizerKind kind = TokenizerKind::bpe) {
  static const std::string models[] = {
      train_sentencepiece(small_training_text(), small_vocab, TokenizerKind::bpe, "small"),
      train_sentencepiece(small_training_text(), small_vocab, TokenizerKind::unigram, "small")};
  return models[static_cast<size_t>(kind)];
}

}  // namespace binade::data
