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
  Target dx_sums = {};  // [1, width], over the rows of dx as stored; needs a dx
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

// Batch norm of rows, with an optional residual and a ReLU in the same pass:
// y = relu((x - mean) * rstd * weight + bias + residual). x, residual and y are [rows, channels]
// and dense, as the elements of a channels-last tensor; all others are [channels].
struct RowBatchNormForward {
  TensorView x;
  TensorView residual = {};
  TensorView weight = {};
  TensorView bias = {};
  double eps;
  bool training = true;  // false: reads mean and rstd instead of writing them
  bool relu = false;
  TensorView y;
  TensorView mean;
  TensorView rstd;
  // Moved towards the statistics of the batch by `momentum` if present. The variance is unbiased.
  TensorView running_mean = {};
  TensorView running_variance = {};
  double momentum = 0;
};

// The first of two steps back: sums over rows of g, the gradient behind the ReLU, and of
// g * (x - mean).
struct RowBatchNormSums {
  TensorView dy;
  TensorView x;
  TensorView weight = {};
  TensorView bias = {};
  TensorView mean;
  TensorView rstd;
  bool relu = false;
  TensorView y = {};       // the result, which says where the ReLU was 0; absent: computed again
  TensorView masked = {};  // receives g if present
  TensorView result = {};  // receives y, without a residual, if present
  TensorView sums;         // [2, channels] f32 (f64 for f64)
};

// The second step: gradients from those sums.
struct RowBatchNormBackward {
  TensorView dy;  // g if it was written, else as above
  TensorView x;
  TensorView weight = {};
  TensorView bias = {};
  TensorView mean;
  TensorView rstd;
  TensorView sums;
  bool relu = false;     // whether dy still has to be masked
  bool training = true;  // false: the statistics did not depend on x
  TensorView dx;
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
  // Only of backends with Backend::channels_last.
  void (*row_batch_forward)(const RowBatchNormForward& args) = nullptr;
  void (*row_batch_sums)(const RowBatchNormSums& args) = nullptr;
  void (*row_batch_backward)(const RowBatchNormBackward& args) = nullptr;
};

}  // namespace binade::backend
