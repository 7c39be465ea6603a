#include "binade/train/preferences.h"

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/dpo_loss.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/train/config/config.h"

namespace binade::train {
namespace {

// The means of both answers' numbers [pairs, 2].
void add_means(const Tensor& of_pairs, std::vector<Tensor>& scalars) {
  for (const int64_t answer : {0, 1}) scalars.push_back(mean(select(of_pairs, 1, answer)));
}

std::vector<Tensor> preference_scalars(const Tensor& log_probs, const Tensor& rewards) {
  const NoGrad no_grad;
  std::vector<Tensor> scalars;
  add_means(rewards, scalars);
  const Tensor is_right = greater(select(rewards, 1, 0), select(rewards, 1, 1));
  scalars.push_back(mean(cast(is_right, DType::f32)));
  add_means(log_probs.detach(), scalars);
  return scalars;
}

BatchLoss pair_loss(nn::LanguageModel& model, const ObjectiveSettings& objective,
                    const data::Batch& pairs) {
  const Tensor log_probs = pair_log_probs(model, pairs);
  const amp::Autocast off(amp::disabled_autocast());
  const DpoLoss dpo =
      dpo_loss(log_probs, pairs.reference,
               {.beta = objective.beta, .label_smoothing = objective.label_smoothing});
  return {.loss = dpo.loss, .preferences = preference_scalars(log_probs, dpo.rewards)};
}

}  // namespace

Preferences preferences_of(std::span<const double> values) {
  Preferences result;
  for (size_t i = 0; i < preference_numbers.size(); ++i)
    result.*preference_numbers[i].value = values[i];
  return result;
}

Tensor pair_log_probs(nn::LanguageModel& model, const data::Batch& pairs) {
  const Tensor of_tokens = model.log_probs(pairs.tokens, pairs.targets);
  const amp::Autocast off(amp::disabled_autocast());
  return reshape(sum(of_tokens, {1}), {pairs.tokens.size(0) / 2, 2});
}

BatchLoss batch_loss(nn::LanguageModel& model, const Config& config, const data::Batch& batch) {
  if (config.objective.has_pairs()) return pair_loss(model, config.objective, batch);
  const Tensor loss =
      model.loss(batch.tokens, batch.targets, {}, {batch.documents, batch.document_bounds});
  if (!batch.weight.defined()) return {loss};
  const amp::Autocast off(amp::disabled_autocast());
  return {loss * batch.weight};
}

}  // namespace binade::train
