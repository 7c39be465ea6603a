#pragma once

#include "binade/nn/module.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/unary.h"

// Functions without parameters as layers, and PReLU.
namespace binade::nn {

class Identity : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return x; }
};

// A function of a tensor alone.
template <Tensor (*function)(const Tensor&)>
class FunctionLayer : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return function(x); }
};

class ReLU : public FunctionLayer<relu> {};
class SiLU : public FunctionLayer<silu> {};
class Mish : public FunctionLayer<mish> {};
class Hardswish : public FunctionLayer<hardswish> {};
class Sigmoid : public FunctionLayer<sigmoid> {};
class Hardsigmoid : public FunctionLayer<hardsigmoid> {};
class Tanh : public FunctionLayer<tanh> {};
class Softplus : public FunctionLayer<softplus> {};

class LeakyReLU : public Layer {
 public:
  explicit LeakyReLU(double slope = 0.01) : slope(slope) {}
  std::string description() const override;

  double slope;  // below zero

 protected:
  Tensor forward(const Tensor& x) override { return leaky_relu(x, slope); }
};

class GELU : public Layer {
 public:
  explicit GELU(Gelu form = Gelu::erf) : form(form) {}
  std::string description() const override;

  Gelu form;

 protected:
  Tensor forward(const Tensor& x) override { return gelu(x, form); }
};

class ELU : public Layer {
 public:
  explicit ELU(double alpha = 1) : alpha(alpha) {}
  std::string description() const override;

  double alpha;  // the limit below zero is -alpha

 protected:
  Tensor forward(const Tensor& x) override { return elu(x, alpha); }
};

// A function along one axis.
class AxisLayer : public Layer {
 public:
  explicit AxisLayer(int64_t axis) : axis(axis) {}
  std::string description() const override;

  int64_t axis;
};

class Softmax : public AxisLayer {
 public:
  using AxisLayer::AxisLayer;

 protected:
  Tensor forward(const Tensor& x) override;
};

class LogSoftmax : public AxisLayer {
 public:
  using AxisLayer::AxisLayer;

 protected:
  Tensor forward(const Tensor& x) override;
};

// max(x, 0) + weight * min(x, 0), with one weight or one per channel (axis 1).
class PReLU : public Layer {
 public:
  explicit PReLU(int64_t count = 1, double initial = 0.25, Placement placement = {});
  std::string description() const override;

  Tensor weight;

 protected:
  Tensor forward(const Tensor& x) override;
};

// Joins the axes `first` to `last`: by default all but the batch.
class Flatten : public Layer {
 public:
  explicit Flatten(int64_t first = 1, int64_t last = -1) : first(first), last(last) {}

  int64_t first, last;

 protected:
  Tensor forward(const Tensor& x) override;
};

}  // namespace binade::nn
