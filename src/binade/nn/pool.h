#pragma once

#include "binade/nn/module.h"
#include "binade/ops/conv/conv.h"

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

// A pool whose windows follow from the spatial sizes of its result: one for all axes, or one per
// axis.
class AdaptivePool : public Layer {
 public:
  explicit AdaptivePool(PerAxis sizes) : sizes(std::move(sizes)) {}
  explicit AdaptivePool(int64_t size) : sizes{size} {}
  std::string description() const override;

  PerAxis sizes;
};

class AdaptiveAvgPool : public AdaptivePool {
 public:
  using AdaptivePool::AdaptivePool;

 protected:
  Tensor forward(const Tensor& x) override;
};

class AdaptiveMaxPool : public AdaptivePool {
 public:
  using AdaptivePool::AdaptivePool;

 protected:
  Tensor forward(const Tensor& x) override;
};

// The average of each channel: [n, c, 1, ...].
class GlobalAvgPool : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return global_avg_pool(x); }
};

}  // namespace binade::nn
