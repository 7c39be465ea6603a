#pragma once

#include <span>

#include "binade/backend/update.h"

namespace binade::backend {

struct OptimizerKernels {
  void (*adam)(std::span<const UpdateItem> items, const AdamParams& hyper, UpdateControl control);
  void (*sgd)(std::span<const UpdateItem> items, const SgdParams& hyper, UpdateControl control);
  // norm (f32 [1]) = p-norm over all gradients; for an infinite p the largest magnitude. found_inf
  // (f32 [1], optional) becomes 1 if any element is non-finite, else stays as it is.
  void (*gradient_norm)(std::span<const TensorView> gradients, double p, TensorView norm,
                        TensorView found_inf);
  // gradient *= factor[0] for all. If an element is non-finite before that, found_inf becomes 1 and
  // first_bad (i32 [1], optional) the smaller of itself and the index of the first such gradient.
  void (*unscale)(std::span<const TensorView> gradients, TensorView factor, TensorView found_inf,
                  TensorView first_bad);
  // factor = min(1, max_norm / (norm + 1e-6))
  void (*clip_factor)(TensorView norm, double max_norm, TensorView factor);

  // CPU only; the optimizers refuse parameters on a GPU. Adam's `third` and 8-bit moments, too.
  void (*rmsprop)(std::span<const UpdateItem> items, const RmspropParams& hyper,
                  UpdateControl control) = nullptr;
  void (*adagrad)(std::span<const UpdateItem> items, const AdagradParams& hyper,
                  UpdateControl control) = nullptr;
  void (*lion)(std::span<const UpdateItem> items, const LionParams& hyper,
               UpdateControl control) = nullptr;
};

}  // namespace binade::backend
