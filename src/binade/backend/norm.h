#pragma once

#include <cstdint>

#include "binade/backend/norm_kind.h"
#include "binade/backend/quantize.h"
#include "binade/backend/target.h"

namespace binade::backend {

// y = (x - mean) * rstd * weight + bias over rows: x, residual, sum and y are [rows, width] and
// dense, weight and bias [width], mean and rstd [rows].
struct NormForward {
  NormKind kind;
  TensorView x;
  TensorView residual = {};  // normalizes x + residual instead of x
  TensorView weight = {};
  TensorView bias = {};
  double eps;
  TensorView sum = {};   // x + residual; present if the residual is
  TensorView y = {};     // absent: computes only the statistics and the sum
  TensorView mean = {};  // layer norm only
  TensorView rstd = {};
  // Optional, instead of y and not for f64: y rounded to `rounded` and quantized, the bits of
  // quantize_norm(). Data in rows only.
  QuantizedOutput quantized = {};
  DType rounded = DType::f32;
};

// Gradients of the same norm. x is the tensor that was normalized: the sum if there was a residual.
struct NormBackward {
  NormKind kind;
  TensorView dy;
  TensorView dsum = {};  // the gradient that reached `sum` itself, added to dx
  TensorView x;
  TensorView weight = {};
  TensorView mean = {};  // layer norm only
  TensorView rstd;
  Target dx = {};
  Target dweight = {};
  Target dbias = {};
};

// Batch norm: x, y [n, channels, inner], mean and rstd [channels].
// Group norm: x, y [n, groups, channels per group, inner], mean and rstd [n, groups].
// Weight and bias have one element per channel.
struct ChannelNormForward {
  TensorView x;
  TensorView weight = {};
  TensorView bias = {};
  double eps;
  bool training = true;  // false: batch norm reads mean and rstd instead of writing them
  TensorView y;
  TensorView mean;
  TensorView rstd;
};

struct ChannelNormBackward {
  TensorView dy;
  TensorView x;
  TensorView weight = {};
  TensorView mean;
  TensorView rstd;
  bool training = true;  // false: batch norm's statistics did not depend on x
  TensorView dx = {};
  Target dweight = {};
  Target dbias = {};
};

// Statistics are f32 (f64 for f64) and two-pass. Parameter gradients are sums over rows in f32 (f64
// for f64), in a fixed order.
struct NormKernels {
  void (*forward)(const NormForward& args);
  void (*backward)(const NormBackward& args);
  void (*batch_forward)(const ChannelNormForward& args);
  void (*batch_backward)(const ChannelNormBackward& args);
  void (*group_forward)(const ChannelNormForward& args);
  void (*group_backward)(const ChannelNormBackward& args);
};

}  // namespace binade::backend
