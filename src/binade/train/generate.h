#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade/nn/language_model.h"

namespace binade::train {

struct GenerateOptions {
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 40;        // choose among so many; 0: all
  uint64_t seed = 0;
};

// Continues `prompt` (at least one token) and returns the new tokens. Each is a function of the
// seed, its index and what stands before it. `seen` is called with each as it comes.
std::vector<int64_t> generate(nn::LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerateOptions& options,
                              const std::function<void(int64_t)>& seen = {});

// The token drawn from logits by a number in [0, 1).
int64_t choose(std::vector<double> logits, const GenerateOptions& options, double uniform);

// Bytes as text for people: what is not UTF-8 and control characters other than newlines and tabs
// become '?'.
std::string printable(const std::string& bytes);

// The printable text of byte tokens.
std::string text_of(const std::vector<int64_t>& tokens);

}  // namespace binade::train
