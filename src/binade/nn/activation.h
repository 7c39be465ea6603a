#pragma once

#include "binade/nn/module.h"
#include "binade/ops/unary.h"

// Functions without parameters as layers, and PReLU.
namespace binade::nn {

class Identity : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return x; }
};

class ReLU : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return relu(x); }
};

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

class SiLU : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return silu(x); }
};

class Sigmoid : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};

class Tanh : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};

class Softplus : public Layer {
 protected:
  Tensor forward(const Tensor& x) override { return softplus(x); }
};

class Softmax : public Layer {
 public:
  explicit Softmax(int64_t axis) : axis(axis) {}
  std::string description() const override;

  int64_t axis;

 protected:
  Tensor forward(const Tensor& x) override;
};

class LogSoftmax : public Layer {
 public:
  explicit LogSoftmax(int64_t axis) : axis(axis) {}
  std::string description() const override;

  int64_t axis;

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
