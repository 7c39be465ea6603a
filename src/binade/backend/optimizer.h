#pragma once

#include <span>

#include "binade/backend/update.h"

namespace binade::backend {

// Elements of a gradient that form one part of its norm, counted from the gradient's start.
inline constexpr int64_t norm_piece = 2048;

struct UpdateRule;  // update_rules.h: one of the optimizers' rules with its hyperparameters

struct OptimizerKernels {
  // A GPU has some of the rules and fails on the others, which optim/catalog.h says beforehand.
  void (*update)(std::span<const UpdateItem> items, const UpdateRule& rule, UpdateControl control);
  // norm (f32 [1]) = p-norm over all gradients; for an infinite p the largest magnitude. found_inf
  // (f32 [1], optional) becomes 1 if any element is non-finite, else stays as it is.
  void (*gradient_norm)(std::span<const TensorView> gradients, double p, TensorView norm,
                        TensorView found_inf);
  // The 2-norm in two halves, for gradients that several processes own: parts (f64, one for every
  // norm_piece elements of each gradient) and found_inf as above; then the norm of parts put
  // together in the order of the gradients. The result has the bits of gradient_norm.
  void (*gradient_norm_parts)(std::span<const TensorView> gradients, TensorView parts,
                              TensorView found_inf);
  void (*join_norm_parts)(TensorView parts, TensorView norm);
  // gradient *= factor[0] for all. If an element is non-finite before that, found_inf becomes 1 and
  // first_bad (i32 [1], optional) the smaller of itself and the index of the first such gradient.
  void (*unscale)(std::span<const TensorView> gradients, TensorView factor, TensorView found_inf,
                  TensorView first_bad);
  // factor = min(1, max_norm / (norm + 1e-6))
  void (*clip_factor)(TensorView norm, double max_norm, TensorView factor);

  // Master weights (f32) to bf16 parameters and their rests (formats/split_f32.h), and back. All
  // have the same number of elements. rest: see UpdateItem; if absent, it is not written.
  void (*split_master)(TensorView master, TensorView parameter, TensorView rest);
  void (*join_master)(TensorView parameter, TensorView rest, TensorView master);
};

}  // namespace binade::backend
