#pragma once

#include "binade/backend/matmul.h"
#include "binade/base/random.h"

namespace binade::backend {

struct ActivationKernels {
  // y = silu(gate) * up, where x [rows, 2 * width] holds gate then up.
  void (*swiglu)(TensorView x, TensorView y);
  void (*swiglu_backward)(TensorView dy, TensorView x, TensorView dx);
  // dx = dy * act'(pre_activation): the part of a fused linear's backward before its products; dx
  // may be dy. dbias [width], optional, is the sum of dx's rows before they are rounded, added to
  // what it holds if `accumulate_bias`.
  void (*activation_backward)(Activation activation, TensorView dy, TensorView pre_activation,
                              TensorView dx, TensorView dbias, bool accumulate_bias);
  // y = x * mask / (1 - p); the mask is drawn anew from the key, so the backward needs nothing
  // saved.
  void (*dropout)(TensorView x, double p, random::Key key, TensorView y);
  // y = mean + deviation * normal draws; y = low + (high - low) * uniform draws.
  void (*fill_normal)(double mean, double deviation, random::Key key, TensorView y);
  void (*fill_uniform)(double low, double high, random::Key key, TensorView y);
};

}  // namespace binade::backend
