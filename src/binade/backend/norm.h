#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

enum class NormKind : uint8_t { layer, rms };

// Statistics are f32 (f64 for f64) and two-pass. x, residual, sum, y, dy, dx are [rows, width] and
// dense; weight and bias are [width] and optional; mean and rstd are [rows] (mean absent for rms).
// Parameter gradients are sums over rows in f32 in a fixed order; they add if `accumulate`.
struct NormKernels {
  // y = (x - mean) * rstd * weight + bias. With a residual, sum = x + residual is normalized
  // instead and returned too. Without y the statistics (and the sum) alone are made.
  void (*forward)(NormKind kind, TensorView x, TensorView residual, TensorView weight,
                  TensorView bias, double eps, TensorView sum, TensorView y, TensorView mean,
                  TensorView rstd);
  // dx = gradient through the norm (+ dsum where present, the gradient that reached `sum` itself);
  // adds to dx if accumulate_dx. `x` is what was normalized.
  void (*backward)(NormKind kind, TensorView dy, TensorView dsum, TensorView x, TensorView weight,
                   TensorView mean, TensorView rstd, TensorView dx, bool accumulate_dx,
                   TensorView dweight, TensorView dbias, bool accumulate_parameters);
  // Batch statistics: x [n, c, inner]; mean and rstd [c] are written (training) or read
  // (evaluation).
  void (*batch_forward)(TensorView x, TensorView weight, TensorView bias, double eps, bool training,
                        TensorView y, TensorView mean, TensorView rstd);
  void (*batch_backward)(TensorView dy, TensorView x, TensorView weight, TensorView mean,
                         TensorView rstd, bool training, TensorView dx, TensorView dweight,
                         TensorView dbias, bool accumulate_parameters);
  // Group norm: x [n, groups, channels per group, inner]; mean and rstd [n, groups]; weight, bias
  // [groups * channels].
  void (*group_forward)(TensorView x, TensorView weight, TensorView bias, double eps, TensorView y,
                        TensorView mean, TensorView rstd);
  void (*group_backward)(TensorView dy, TensorView x, TensorView weight, TensorView mean,
                         TensorView rstd, TensorView dx, TensorView dweight, TensorView dbias,
                         bool accumulate_parameters);
};

}  // namespace binade::backend
