#include "binade/train/micro_batch.h"

#include "binade/amp/autocast.h"
#include "binade/base/random.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/train/config/component_options.h"

namespace binade::train {

data::Batch on_device(const data::Batch& batch, Device device) {
  return {.tokens = to(batch.tokens, device),
          .targets = to(batch.targets, device),
          .weight = batch.weight.defined() ? to(batch.weight, device) : Tensor(),
          .documents = batch.documents,
          .document_bounds = batch.document_bounds};
}

Tensor batch_loss(nn::LanguageModel& model, const data::Batch& batch) {
  const Tensor loss =
      model.loss(batch.tokens, batch.targets, {}, {batch.documents, batch.document_bounds});
  if (!batch.weight.defined()) return loss;
  const amp::Autocast off(amp::disabled_autocast());
  return loss * batch.weight;
}

Tensor micro_loss(nn::LanguageModel& model, const Config& config, const amp::RecipeState& recipe,
                  const data::Tokens& tokens, int64_t step, int64_t micro) {
  const amp::Autocast cast(autocast_state(config));
  const amp::QuantizedAutocast quantized(recipe);
  const data::Batch batch = data::training_batch(
      tokens, {config.train.batch, config.model.context, config.train.accumulate},
      static_cast<uint64_t>(config.train.seed), step, micro);
  random::begin_micro_batch(micro);
  return batch_loss(model, on_device(batch, model.head_weight().device()));
}

}  // namespace binade::train
