#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "binade/data/batches.h"
#include "binade/nn/language_model.h"

namespace binade::train {

struct Config;

// What a model makes of pairs of answers beside their loss: means over the pairs. The reward of an
// answer is beta times its log-probability above the reference's.
struct Preferences {
  double chosen_reward = 0, rejected_reward = 0;
  double accuracy = 0;  // the share of pairs whose chosen answer has the higher reward
  double chosen_log_prob = 0, rejected_log_prob = 0;

  double margin() const { return chosen_reward - rejected_reward; }
  bool operator==(const Preferences&) const = default;
};

struct PreferenceNumber {
  std::string_view name;  // in metrics.jsonl
  double Preferences::*value;
};
inline constexpr std::array<PreferenceNumber, 5> preference_numbers = {
    {{"chosen_reward", &Preferences::chosen_reward},
     {"rejected_reward", &Preferences::rejected_reward},
     {"accuracy", &Preferences::accuracy},
     {"chosen_log_prob", &Preferences::chosen_log_prob},
     {"rejected_log_prob", &Preferences::rejected_log_prob}}};

// Their values in that order.
Preferences preferences_of(std::span<const double> values);

// The log-probabilities of the answers of a batch of pairs on the model's device: sums over their
// tokens, f32 [pairs, 2].
Tensor pair_log_probs(nn::LanguageModel& model, const data::Batch& pairs);

// The loss of a batch on the model's device, by the configuration's objective.
struct BatchLoss {
  Tensor loss;                           // times the batch's weight
  std::vector<Tensor> preferences = {};  // of pairs: scalars, as preference_numbers
};
BatchLoss batch_loss(nn::LanguageModel& model, const Config& config, const data::Batch& batch);

}  // namespace binade::train
