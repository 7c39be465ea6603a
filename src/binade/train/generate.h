#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/nn/language_model.h"

namespace binade::train {

struct GenerateOptions {
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the most likely token
  int64_t top_k = 40;        // sample from this many most likely tokens; 0: all
  double top_p = 1;          // sample from the most likely tokens of this total probability
  uint64_t seed = 0;
  int64_t sample = 0;  // which of the texts that one seed gives for a prompt
  // Makes tokens of the text so far less likely: divides their positive logits and multiplies their
  // negative ones, as transformers does; 1: none.
  double repetition_penalty = 1;
  std::vector<int64_t> eos = {};  // ids that end the text
};

// Fails for options out of range, naming them.
void check_options(const GenerateOptions& options);

// Continues `prompt` (at least one token) and returns the new tokens; one of options.eos is the
// last if it occurs. Each depends only on the seed, the sample, its index and the tokens before it.
// `on_token` is called with each and ends the text by returning false. When the model's context is
// full, its last half is fed again and generation continues from there.
std::vector<int64_t> generate(nn::LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerateOptions& options,
                              const std::function<bool(int64_t)>& on_token = {});

// Applies the repetition penalty to the logits of all tokens in `text`.
void penalize_repetition(std::span<double> logits, std::span<const int64_t> text, double penalty);

// The token sampled from logits by a number in [0, 1). Fails if one is NaN or plus infinity,
// or all are minus infinity.
int64_t choose(std::vector<double> logits, const GenerateOptions& options, double uniform);

// Converts a stream of bytes to text, of which a character is returned once its last byte has
// arrived. Printable text has '?' for invalid UTF-8 and for control characters other than newlines
// and tabs; other text has U+FFFD for invalid UTF-8.
class TextStream {
 public:
  enum class Characters : uint8_t { printable, all };
  explicit TextStream(Characters characters = Characters::printable) : characters_(characters) {}

  std::string add(std::string_view bytes);
  // The bytes of an incomplete last character.
  std::string finish();

 private:
  std::string take(bool more_may_come);

  Characters characters_;
  std::string pending_;
};

// A complete text as TextStream prints it.
std::string printable(std::string_view bytes);

}  // namespace binade::train
