#pragma once

#include "binade/ops/norm/norm.h"

// Batch norm of channels-last tensors. Not part of the public interface.
namespace binade::ops {

struct ChannelsLastBatchNorm {
  const Tensor& x;
  Tensor residual = {};  // optional, with x's type
  const Tensor& weight;
  const Tensor& bias;
  const Tensor& running_mean;
  const Tensor& running_variance;
  BatchNormOptions options;
  bool relu = false;
};

// The arguments are checked, and x is channels-last on a device with kernels for that. Keeps x for
// the backward and, unless there is a residual, lets later ops compute the result again.
Tensor channels_last_batch_norm(const ChannelsLastBatchNorm& args);

}  // namespace binade::ops
