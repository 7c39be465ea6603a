#include "binade/train/forecast.h"

namespace binade::train {
namespace {

Config on_meta(Config config) {
  config.device = Device::meta();
  return config;
}

}  // namespace

MetaRun::MetaRun(const Config& config, std::shared_ptr<dist::Communicator> ranks)
    : trainer_(on_meta(config), std::move(ranks)),
      // The fewest tokens that batches can be drawn from; their values are never read.
      tokens_(data::Tokens::of_bytes(std::string(static_cast<size_t>(config.context) + 2, '\0'))) {}

memory::Statistics forecast_memory(const Config& config,
                                   std::shared_ptr<dist::Communicator> ranks) {
  const memory::Statistics before = memory::statistics(Device::meta());
  MetaRun run(config, std::move(ranks));
  // Not of the start, when ranks that share the weights have all of them.
  memory::reset_peak(Device::meta());
  // Two steps are enough: the second finds gradients, moments and FP8 histories in place.
  for (int i = 0; i < 2; ++i) run.step();
  memory::Statistics result = memory::statistics(Device::meta());
  for (size_t i = 0; i < memory::category_count; ++i) {
    result.live[i] -= before.live[i];
    result.at_peak[i] -= before.live[i];
  }
  result.allocated -= before.allocated;
  result.peak -= before.allocated;
  return result;
}

}  // namespace binade::train
