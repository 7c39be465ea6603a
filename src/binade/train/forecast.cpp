#include "binade/train/forecast.h"

#include "binade/train/trainer.h"

namespace binade::train {

memory::Statistics forecast_memory(const Config& config) {
  Config on_meta = config;
  on_meta.device = "meta";
  // Two steps are enough; the second finds gradients, moments and FP8 histories in place.
  const data::Tokens tokens =
      data::Tokens::of_bytes(std::string(static_cast<size_t>(config.context) + 2, '\0'));
  const memory::Statistics before = memory::statistics(Device::meta());
  memory::reset_peak(Device::meta());
  Trainer trainer(on_meta);
  for (int i = 0; i < 2; ++i) trainer.step(tokens);
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
