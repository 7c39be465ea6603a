#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::autograd {

struct Node;

// Called with a finished gradient; what it returns, if defined, replaces it.
using Hook = std::function<Tensor(const Tensor& gradient)>;

// What autograd knows of a tensor. Holds no data of the tensor itself, so that a graph keeps alive
// only what its backward needs.
struct Meta {
  Shape shape;
  DType dtype = DType::f32;
  Device device;

  // Results of recorded ops.
  std::shared_ptr<Node> node;
  int output = 0;

  // Leaves.
  bool requires_grad = false;
  DType grad_dtype = DType::f32;
  Tensor grad;  // kept as a buffer while holds_gradient is false
  bool holds_gradient = false;
  int pending = 0;  // contributions the running backward still owes

  std::vector<Hook> hooks;
};

}  // namespace binade::autograd
