#pragma once

#include <functional>
#include <memory>

#include "binade/nn/module.h"

namespace binade::nn {

// Layers one after another, named "0", "1", ...
class Sequential : public Layer {
 public:
  Sequential() = default;
  // Sequential{std::make_unique<Linear>(...), std::make_unique<Function>(relu), ...}: with braces,
  // because parentheses leave unspecified which layer draws its initial weights first.
  template <class... L>
  explicit Sequential(std::unique_ptr<L>... layers) {
    (add(std::move(layers)), ...);
  }

  void add(std::unique_ptr<Layer> layer);
  size_t size() const { return layers_.size(); }
  // Fails unless i < size().
  Layer& operator[](size_t i) { return *layers_[checked(i)]; }
  const Layer& operator[](size_t i) const { return *layers_[checked(i)]; }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  size_t checked(size_t i) const;

  std::vector<std::unique_ptr<Layer>> layers_;
};

// A function without parameters as a layer.
class Function : public Layer {
 public:
  explicit Function(std::function<Tensor(const Tensor&)> function)
      : function_(std::move(function)) {}

 protected:
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

// Zeroes elements with probability p while training.
class Dropout : public Layer {
 public:
  explicit Dropout(double p);
  std::string description() const override;

  double p;

 protected:
  Tensor forward(const Tensor& x) override;
};

}  // namespace binade::nn
