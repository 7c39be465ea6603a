#pragma once

#include <span>
#include <vector>

#include "binade/nn/language_model.h"
#include "binade/train/generate.h"

namespace binade::train {

// A text that grows by a token sampled from the logits that follow it. Each token depends only on
// the options' seed and sample, its index and the logits.
class SampledText {
 public:
  // Fails for options out of range and for a prompt without tokens.
  SampledText(std::vector<int64_t> prompt, const GenerateOptions& options);

  // Adds a token sampled from the logits, and returns it.
  int64_t add(std::vector<double> logits);
  // Whether it has as many tokens as were asked for, or ends with one of the EOS ids.
  bool has_ended() const;

  // The tokens that a model must be fed next: those that are not in the cache or, if the model's
  // context is full, the last half of it again; the cache is cleared then.
  std::span<const int64_t> next_input(int64_t context, nn::KeyValueCache& cache) const;
  // The tokens that a cache for the whole text holds at most.
  int64_t cache_size(int64_t context) const;
  // The tokens after the prompt.
  std::vector<int64_t> generated() const;

 private:
  GenerateOptions options_;
  uint64_t stream_;
  std::vector<int64_t> tokens_;
  size_t prompt_size_;
};

}  // namespace binade::train
