#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/nn/language_model.h"

namespace binade::train {

struct GenerateOptions {
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 40;        // choose among so many; 0: all
  double top_p = 1;          // choose among the likeliest that together have this probability
  uint64_t seed = 0;
};

// Fails on impossible numbers, naming them.
void check_options(const GenerateOptions& options);

// Continues `prompt` (at least one token) and returns the new tokens. Each is a function of the
// seed, its index and what stands before it. `seen` is called with each as it comes. Where the
// model's context is full, its last half is fed again and the text goes on from there.
std::vector<int64_t> generate(nn::LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerateOptions& options,
                              const std::function<void(int64_t)>& seen = {});

// The token drawn from logits by a number in [0, 1).
int64_t choose(std::vector<double> logits, const GenerateOptions& options, double uniform);

// Bytes that come in pieces as text for people: what is not UTF-8 and control characters other than
// newlines and tabs become '?'. A character is given out when its last byte is there.
class TextStream {
 public:
  std::string add(std::string_view bytes);
  // What was left waiting for more bytes.
  std::string finish();

 private:
  std::string take(bool more_may_come);

  std::string pending_;
};

// The same for all bytes at once.
std::string printable(std::string_view bytes);

}  // namespace binade::train
