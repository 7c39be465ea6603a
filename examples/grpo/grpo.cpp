#include "grpo.h"

#include <algorithm>
#include <cmath>

#include "task.h"

namespace grpo {

using namespace binade;

namespace {

constexpr double clip_low = 0.8, clip_high = 1.28;
// Without it the policy settles on one digit for a place that it has not learned yet.
constexpr double entropy_bonus = 0.02;

// R - mean within the group of a prompt's answers. Not over the deviation, which would count a
// group with one odd answer as much as one that tells good from bad.
void append_advantages(const std::vector<double>& rewards, std::vector<double>& advantages) {
  double mean = 0;
  for (const double reward : rewards) mean += reward / static_cast<double>(rewards.size());
  for (const double reward : rewards) advantages.push_back(reward - mean);
}

// sum(p log p) of each token's distribution.
Tensor negative_entropy(const Tensor& logits) {
  const Tensor log_p = log_softmax(cast(logits, DType::f32));
  return sum(exp(log_p) * log_p, {-1});
}

}  // namespace

Rollouts roll_out(nn::LanguageModel& model, const RolloutOptions& options) {
  const auto prompts = task::prompts(options.prompts, options.seed, options.step);
  // Samples are numbered on from step to step, so that each text has random numbers of its own.
  const int64_t texts = options.prompts * options.answers;
  const auto answers =
      train::generate_texts(model, prompts, options.answers,
                            {.tokens = task::length,
                             .temperature = 1,
                             .top_k = 0,
                             .seed = options.seed,
                             .sample = static_cast<int64_t>(options.step) * texts});

  const int64_t width = static_cast<int64_t>(prompts[0].size()) + task::length - 1;
  std::vector<int64_t> tokens, targets;
  std::vector<double> log_probs, rewards, advantages;
  Rollouts result;
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::vector<int64_t>& prompt = prompts[i / static_cast<size_t>(options.answers)];
    const train::GeneratedText& answer = answers[i];
    tokens.insert(tokens.end(), prompt.begin(), prompt.end());
    tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end() - 1);
    targets.insert(targets.end(), prompt.size() - 1, -100);
    targets.insert(targets.end(), answer.tokens.begin(), answer.tokens.end());
    log_probs.insert(log_probs.end(), prompt.size() - 1, 0);
    log_probs.insert(log_probs.end(), answer.log_probs.begin(), answer.log_probs.end());
    rewards.push_back(task::reward(prompt, answer.tokens));
    result.reward += rewards.back() / static_cast<double>(texts);
    if (std::ssize(rewards) == options.answers) {
      append_advantages(rewards, advantages);
      rewards.clear();
    }
  }
  result.tokens = tensor(tokens, {texts, width});
  result.targets = tensor(targets, {texts, width});
  result.old_log_probs = tensor(log_probs, {texts, width});
  result.advantages = tensor(advantages, {texts, 1});
  return result;
}

Tensor loss(const Tensor& logits, const Rollouts& rollouts, Mismatch& mismatch) {
  const Tensor log_ratio = token_log_probs(logits, rollouts.targets) - rollouts.old_log_probs;
  const Tensor ratio = exp(clamp(log_ratio, -20, 20));
  const Tensor clipped = clamp(ratio, clip_low, clip_high);
  const double tokens = static_cast<double>(rollouts.advantages.numel()) * task::length;
  mismatch = {};
  for (const double value : to_vector(log_ratio)) {
    mismatch.largest_log_ratio = std::max(mismatch.largest_log_ratio, std::abs(value));
    const double r = std::exp(value);
    mismatch.clipped += (r < clip_low || r > clip_high ? 1 : 0) / tokens;
  }
  const Tensor gain = minimum(ratio * rollouts.advantages, clipped * rollouts.advantages);
  const Tensor is_answer =
      cast(greater_equal(rollouts.targets, zeros({1}, DType::i64)), DType::f32);
  const Tensor loss = negative_entropy(logits) * entropy_bonus - gain;
  return sum(loss * is_answer) * (1 / tokens);
}

}  // namespace grpo
