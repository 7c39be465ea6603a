#include "binade/train/memory/forecast.h"

#include <algorithm>

#include "binade/backend/capabilities.h"
#include "binade/data/documents.h"
#include "binade/ops/loss/loss.h"
#include "binade/train/config/component_options.h"

namespace binade::train {
namespace {

// The device without data that allocates as the configuration's does.
Device stand_in(const Config& config) {
  return backend::capabilities(device_of(config)).recomputes_results ? Device::meta_gpu()
                                                                     : Device::meta();
}

Config on_meta(Config config) {
  config.train.device = stand_in(config);
  config.run.eval_batches = 1;  // one takes as much memory as many
  return config;
}

// The fewest tokens that a batch can be drawn from; their values are never read.
data::Tokens few_tokens(int64_t count, char value = '\0') {
  return data::Tokens::of_bytes(std::string(static_cast<size_t>(count), value));
}

// A pair of answers of the context's length.
data::Tokens one_pair(int64_t context) {
  const int64_t length = context + 1;
  const data::Tokens ids = few_tokens(2 * length);
  const data::Documents pair(ids, few_tokens(2 * length, '\1'), {length, 2 * length},
                             {.context = context, .paired = true});
  return ids.with_documents(std::make_shared<const data::Documents>(pair.with_reference({0, 0})));
}

memory::Statistics without_cache(Device device) {
  memory::release_cached(device);
  return memory::statistics(device);
}

}  // namespace

int64_t loss_chunk(const Config& config) {
  const DType type =
      uses_autocast(config.precision.matmul) ? autocast_type(config.precision.matmul) : DType::f32;
  return logits_rows(config.objective.sequences(config.train.batch) * config.model.context,
                     {.classes = config.model.vocab,
                      .width = config.model.width,
                      .dtype = type,
                      .quantized = config.precision.matmul == Precision::quantized &&
                                   config.precision.recipe.has_head()},
                     device_of(config));
}

MetaRun::MetaRun(const Config& config, std::shared_ptr<ranks::Communicator> ranks)
    : before_(without_cache(stand_in(config))), trainer_(on_meta(config), std::move(ranks)) {
  trainer_.model().set_loss_chunk(loss_chunk(config));
  // Not of the start, when ranks that share the weights have all of them.
  memory::reset_peak(trainer_.device());
}

void MetaRun::step() {
  const Config& config = trainer_.config();
  // Batches of no data: drawing one of a large configuration would take gigabytes.
  const Device device = trainer_.device();
  const auto tokens = [&] {
    return Tensor::empty({config.objective.sequences(config.train.batch), config.model.context},
                         DType::i64, device);
  };
  data::Batch batch{.tokens = tokens(), .targets = tokens()};
  if (config.objective.has_pairs())
    batch.reference = Tensor::empty({config.train.batch, 2}, DType::f32, device);
  const std::vector<data::Batch> batches(static_cast<size_t>(trainer_.own_micro_batches()), batch);
  trainer_.start_step(batches);
  trainer_.finish_all();
}

void MetaRun::evaluate() {
  const Config& config = trainer_.config();
  trainer_.evaluate(config.objective.has_pairs() ? one_pair(config.model.context)
                                                 : few_tokens(config.model.context + 2));
}

memory::Statistics MetaRun::memory() const {
  memory::Statistics result = memory::statistics(trainer_.device());
  for (size_t i = 0; i < memory::category_count; ++i) {
    result.live[i] -= before_.live[i];
    result.at_peak[i] -= before_.live[i];
  }
  result.allocated -= before_.allocated;
  result.peak -= before_.allocated;
  result.peak_reserved -= before_.reserved;
  return result;
}

Config with_few_rounds(Config config, int ranks) {
  config.train.accumulate = std::min<int64_t>(config.train.accumulate, 2 * ranks);
  return config;
}

memory::Statistics forecast_memory(const Config& config,
                                   std::shared_ptr<ranks::Communicator> ranks) {
  const Config few = with_few_rounds(config, ranks->size());
  MetaRun run(few, std::move(ranks));
  // Two steps are enough: the second finds gradients, moments and histories of scales in place.
  for (int i = 0; i < 2; ++i) run.step();
  return run.memory();
}

}  // namespace binade::train
