#include "binade/train/micro_batch.h"

#include "binade/amp/autocast.h"
#include "binade/base/random.h"
#include "binade/ops/create/copy.h"
#include "binade/train/config/component_options.h"
#include "binade/train/preferences.h"

namespace binade::train {

data::Batch on_device(const data::Batch& batch, Device device) {
  return {.tokens = to(batch.tokens, device),
          .targets = to(batch.targets, device),
          .weight = batch.weight.defined() ? to(batch.weight, device) : Tensor(),
          .documents = batch.documents,
          .document_bounds = batch.document_bounds,
          .reference = batch.reference.defined() ? to(batch.reference, device) : Tensor()};
}

Tensor micro_loss(nn::LanguageModel& model, const Config& config, const amp::RecipeState& recipe,
                  const data::Tokens& tokens, int64_t step, int64_t micro) {
  const amp::Autocast cast(autocast_state(config));
  const amp::QuantizedAutocast quantized(recipe);
  const data::Batch batch = data::training_batch(
      tokens, {config.train.batch, config.model.context, config.train.accumulate},
      static_cast<uint64_t>(config.train.seed), step, micro);
  random::begin_micro_batch(micro);
  return batch_loss(model, config, on_device(batch, model.head_weight().device())).loss;
}

}  // namespace binade::train
