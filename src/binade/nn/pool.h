#pragma once

#include "binade/nn/module.h"
#include "binade/ops/conv.h"

// Pools over one, two or three spatial axes, x [n, c, spatial...].
namespace binade::nn {

class MaxPool : public Layer {
 public:
  explicit MaxPool(PoolOptions options) : options(std::move(options)) {}
  // A window of this size on every axis, without overlap.
  explicit MaxPool(int64_t kernel) : options{.kernel = {kernel}} {}
  std::string description() const override;

  PoolOptions options;

 protected:
  Tensor forward(const Tensor& x) override { return max_pool(x, options); }
};

class AvgPool : public Layer {
 public:
  explicit AvgPool(PoolOptions options) : options(std::move(options)) {}
  explicit AvgPool(int64_t kernel) : options{.kernel = {kernel}} {}
  std::string description() const override;

  PoolOptions options;

 protected:
  Tensor forward(const Tensor& x) override { return avg_pool(x, options); }
};

// The average of each channel: [n, c, 1, ...].
class GlobalAvgPool : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return global_avg_pool(x); }
};

}  // namespace binade::nn
