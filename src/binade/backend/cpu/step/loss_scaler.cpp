#include "binade/backend/loss_scaler.h"

#include <algorithm>
#include <cmath>

#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu {
namespace {

void invert(TensorView scale, TensorView inverse) {
  *inverse.as<float>() = static_cast<float>(1.0 / static_cast<double>(*scale.as<float>()));
}

void update(TensorView scale, TensorView trackers, TensorView found_inf,
            const LossScaleParams& params) {
  float& value = *scale.as<float>();
  int32_t& clean = trackers.as<int32_t>()[0];
  int32_t& tolerated = trackers.as<int32_t>()[1];
  if (*found_inf.as<float>() != 0) {
    clean = 0;
    if (--tolerated > 0) return;
    const auto smaller = static_cast<float>(static_cast<double>(value) * params.backoff);
    value = std::max(smaller, static_cast<float>(params.minimum));
    return;
  }
  if (++clean < params.interval) return;
  const auto larger = static_cast<float>(static_cast<double>(value) * params.growth);
  if (std::isfinite(larger)) value = larger;
  clean = 0;
  tolerated = static_cast<int32_t>(params.hysteresis);
}

}  // namespace

const ScalerKernels scaler_kernels{.invert = invert, .update = update};

}  // namespace binade::backend::cpu
