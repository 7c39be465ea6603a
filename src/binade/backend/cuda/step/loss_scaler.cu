#include "binade/backend/loss_scaler.h"

#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/cuda/kernels.h"

namespace binade::backend::cuda {
namespace {

__global__ void invert_kernel(const float* scale, float* inverse) {
  *inverse = static_cast<float>(1.0 / static_cast<double>(*scale));
}

void invert(TensorView scale, TensorView inverse) {
  launch(invert_kernel, 1, 1, 0, scale.as<float>(), inverse.as<float>());
}

__global__ void update_kernel(float* scale, int32_t* trackers, const float* found_inf,
                              LossScaleParams params) {
  int32_t& clean = trackers[0];
  int32_t& tolerated = trackers[1];
  if (*found_inf != 0) {
    clean = 0;
    if (--tolerated > 0) return;
    const auto smaller = static_cast<float>(static_cast<double>(*scale) * params.backoff);
    const auto minimum = static_cast<float>(params.minimum);
    *scale = smaller < minimum ? minimum : smaller;
    return;
  }
  if (++clean < params.interval) return;
  const auto larger = static_cast<float>(static_cast<double>(*scale) * params.growth);
  if (isfinite(larger)) *scale = larger;
  clean = 0;
  tolerated = static_cast<int32_t>(params.hysteresis);
}

void update(TensorView scale, TensorView trackers, TensorView found_inf,
            const LossScaleParams& params) {
  launch(update_kernel, 1, 1, 0, scale.as<float>(), trackers.as<int32_t>(), found_inf.as<float>(),
         params);
}

}  // namespace

const ScalerKernels scaler_kernels{.invert = invert, .update = update};

}  // namespace binade::backend::cuda
