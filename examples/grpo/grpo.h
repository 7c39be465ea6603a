#pragma once

#include <binade/binade.h>
#include <binade/generate.h>

#include <cstdint>
#include <vector>

// Group-relative policy optimization: answers to each prompt are compared with one another.
namespace grpo {

// Answers of the current policy.
struct Rollouts {
  binade::Tensor tokens;         // i64 [answers, prompt and answer but its last token]
  binade::Tensor targets;        // i64, the same shape: the answer's tokens, -100 for the prompt's
  binade::Tensor old_log_probs;  // f32, the same shape: the sampler's, 0 for the prompt
  binade::Tensor advantages;     // f32 [answers, 1]
  double reward = 0;             // mean
};

struct RolloutOptions {
  int64_t prompts = 32, answers = 8;  // per prompt
  uint64_t seed = 0, step = 0;
};

Rollouts roll_out(binade::nn::LanguageModel& model, const RolloutOptions& options);

// How the policy that is trained differs from the one that answered.
struct Mismatch {
  double largest_log_ratio = 0;  // of a token
  double clipped = 0;            // the share of tokens whose ratio is out of the bounds
};

// The clipped loss: the mean over all answers' tokens of -min(r A, clip(r) A), where r is the ratio
// of a token's probabilities now and when it was sampled, less a small multiple of the entropy.
binade::Tensor loss(const binade::Tensor& logits, const Rollouts& rollouts, Mismatch& mismatch);

}  // namespace grpo
