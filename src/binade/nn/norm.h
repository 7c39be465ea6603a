#pragma once

#include "binade/nn/module.h"

namespace binade::nn {

class LayerNorm : public Layer {
 public:
  explicit LayerNorm(int64_t width, double eps = 1e-5, bool with_bias = true,
                     Placement placement = {});
  // {x + residual, norm of it}; see residual_layer_norm.
  std::pair<Tensor, Tensor> add(const Tensor& x, const Tensor& residual);

  Tensor weight, bias;
  double eps;

 protected:
  Tensor forward(const Tensor& x) override;
};

class RMSNorm : public Layer {
 public:
  explicit RMSNorm(int64_t width, double eps = 1e-5, Placement placement = {});
  std::pair<Tensor, Tensor> add(const Tensor& x, const Tensor& residual);

  Tensor weight;
  double eps;

 protected:
  Tensor forward(const Tensor& x) override;
};

// x [n, channels, ...]. Running statistics are f32 buffers.
class BatchNorm : public Layer {
 public:
  explicit BatchNorm(int64_t channels, double eps = 1e-5, double momentum = 0.1,
                     Placement placement = {});

  Tensor weight, bias, running_mean, running_var;
  double eps, momentum;

 protected:
  Tensor forward(const Tensor& x) override;
};

class GroupNorm : public Layer {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, Placement placement = {});

  Tensor weight, bias;
  int64_t groups;
  double eps;

 protected:
  Tensor forward(const Tensor& x) override;
};

}  // namespace binade::nn
