#pragma once

#include <utility>

#include "binade/tensor/tensor.h"

namespace binade {

// Statistics are two-pass and f32 (f64 for f64). Weights and biases are optional and may have
// another floating type than x.

// Over the last axis; weight and bias have its size.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-5);

// A residual addition and the norm of its result in one pass: {x + residual, norm(x + residual)}.
// The sum has the residual's type; the norm has the autocast type, or the sum's without autocast.
// Without a residual the sum is x itself.
std::pair<Tensor, Tensor> residual_layer_norm(const Tensor& x, const Tensor& residual,
                                              const Tensor& weight, const Tensor& bias,
                                              double eps = 1e-5);
std::pair<Tensor, Tensor> residual_rms_norm(const Tensor& x, const Tensor& residual,
                                            const Tensor& weight, double eps = 1e-5);
// The residual norms by plain ops: the definition, and the reference in tests.
std::pair<Tensor, Tensor> residual_layer_norm_composite(const Tensor& x, const Tensor& residual,
                                                        const Tensor& weight, const Tensor& bias,
                                                        double eps = 1e-5);
std::pair<Tensor, Tensor> residual_rms_norm_composite(const Tensor& x, const Tensor& residual,
                                                      const Tensor& weight, double eps = 1e-5);

struct BatchNormOptions {
  bool training;
  double momentum = 0.1;
  double eps = 1e-5;
};

// x [n, c, ...]. Training uses the statistics of the batch and moves the running ones (f32 [c],
// optional) towards them by `momentum`; otherwise the running ones are used.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_variance,
                  const BatchNormOptions& options);
// relu(batch_norm(x) + residual), or without the residual if it is undefined; recorded as
// batch_norm. On GPUs one pass, for a channels-last x and a residual of its type.
Tensor batch_norm_relu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                       const Tensor& bias, const Tensor& running_mean,
                       const Tensor& running_variance, const BatchNormOptions& options);
// x [n, c, ...], statistics over c / groups channels of one sample.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
// A group norm in which every channel of every batch entry has its own statistics.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     double eps = 1e-5);

}  // namespace binade
