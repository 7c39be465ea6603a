#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::train {

// A token with its log-probability by the model, whatever the options it was sampled with: as
// token_log_probs() computes it.
struct ScoredToken {
  int64_t id = 0;
  float log_prob = 0;
  // The most likely tokens in its place, best first; of equal ones the lowest id.
  std::vector<std::pair<int64_t, float>> top = {};
};

// What is to be known about the tokens of a text.
struct ScoreOptions {
  bool generated = false;  // log-probabilities of generated tokens
  bool prompt = false;     // those of the prompt's
  int64_t top = 0;         // how many of the most likely tokens
};

// Scores one token for each row of logits [..., vocab].
std::vector<ScoredToken> scored_tokens(const Tensor& logits, std::span<const int64_t> tokens,
                                       int64_t top);

// For JSON, which has no infinities and no NaN: -9999 in their place, as servers of language models
// have it.
double finite(float log_prob);

}  // namespace binade::train
