#pragma once

#include <cstdint>
#include <span>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// One parameter of a multi-tensor update. `master` is f32 and is what the update changes; `copy`,
// where present, is the low-precision parameter derived from it.
struct UpdateItem {
  TensorView master;
  TensorView gradient;  // f32, f16 or bf16
  TensorView first;     // momentum or first moment: f32 or bf16
  TensorView second;    // second moment
  TensorView copy;
  // f32 [1], on devices where the host learns late that a step was skipped: how many of the updates
  // it counted were. The numbers below are then taken for `count` less these.
  TensorView skipped;
};

// Read on the device when the update runs, so that nothing waits for the host. All optional.
struct UpdateControl {
  TensorView gradient_factor;  // f32 [1]: multiplies every gradient (1 / loss scale, clip factor)
  TensorView skip;             // f32 [1]: not 0: leave everything as it is
  // f64 [4]: lr, count, correction1 and correction2, which take the place of the host's numbers: a
  // recorded update (backend/graph.h) runs again with others.
  TensorView numbers;
};

struct AdamParams {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double correction1 = 1, correction2 = 1;  // 1 - beta^count
  int64_t count = 1;                        // updates of these items, the running one included
  bool decoupled_decay = true;              // AdamW; otherwise the decay joins the gradient
  bool stochastic_rounding =
      false;  // for a 16-bit `master`: round randomly, keyed by seed and step
  uint64_t seed = 0, step = 0;
};

struct SgdParams {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first_step = false;  // momentum starts as the gradient
  int64_t count = 1;        // updates of these items, the running one included
  bool stochastic_rounding = false;
  uint64_t seed = 0, step = 0;
};

struct OptimizerKernels {
  void (*adam)(std::span<const UpdateItem> items, const AdamParams& numbers, UpdateControl control);
  void (*sgd)(std::span<const UpdateItem> items, const SgdParams& numbers, UpdateControl control);
  // norm (f32 [1]) = p-norm over all gradients; p of infinity is the largest magnitude. found_inf
  // (f32 [1], optional) becomes 1 where any element is not finite and is left alone otherwise.
  void (*gradient_norm)(std::span<const TensorView> gradients, double p, TensorView norm,
                        TensorView found_inf);
  // gradient *= factor[0] for all; sets found_inf where an element is not finite before the
  // product, and first_bad (i32 [1], optional) to the smaller of itself and the place of the first
  // gradient with such an element.
  void (*unscale)(std::span<const TensorView> gradients, TensorView factor, TensorView found_inf,
                  TensorView first_bad);
  // factor = min(1, max_norm / (norm + 1e-6))
  void (*clip_factor)(TensorView norm, double max_norm, TensorView factor);
};

}  // namespace binade::backend
