#pragma once

#include "binade/backend/matmul.h"
#include "binade/backend/target.h"
#include "binade/base/random.h"

namespace binade::backend {

// dx = dy * act'(pre_activation): the first part of a fused linear's backward. All are [rows,
// width]; dx may be dy or pre_activation.
struct ActivationBackward {
  Activation activation;
  TensorView dy;
  TensorView pre_activation;
  TensorView dx;
  Target dbias = {};  // [width]: the sum of dx's rows before they are rounded
  TensorView y = {};  // optional: act(pre_activation), for callers that did not keep it
};

// The gradient of swiglu. dy and y are [rows, width], x and dx [rows, 2 * width]; dx may be x.
struct SwiGluBackward {
  TensorView dy;
  TensorView x;
  TensorView dx;
  TensorView y = {};  // optional: swiglu(x)
};

struct ActivationKernels {
  // y = silu(gate) * up, where x [rows, 2 * width] holds gate then up.
  void (*swiglu)(TensorView x, TensorView y);
  void (*swiglu_backward)(const SwiGluBackward& args);
  void (*activation_backward)(const ActivationBackward& args);
  // y = x * mask / (1 - p). The mask is a function of the key, so the backward recomputes it.
  void (*dropout)(TensorView x, double p, random::Key key, TensorView y);
  // y = mean + deviation * normal draws; y = low + (high - low) * uniform draws.
  void (*fill_normal)(double mean, double deviation, random::Key key, TensorView y);
  void (*fill_uniform)(double low, double high, random::Key key, TensorView y);
};

}  // namespace binade::backend
