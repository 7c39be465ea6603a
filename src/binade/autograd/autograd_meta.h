#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::autograd {

struct Node;

// Called with a finished gradient. A defined result replaces the gradient.
using Hook = std::function<Tensor(const Tensor& gradient)>;

// Computes a result of an op again, from tensors that the op's backward keeps anyway. Ops that need
// the result in their backward save this instead, so that its memory is free in between.
class ResultRecompute {
 public:
  ResultRecompute() = default;
  virtual ~ResultRecompute() = default;
  ResultRecompute(const ResultRecompute&) = delete;
  ResultRecompute& operator=(const ResultRecompute&) = delete;

  // The result. `gradient`, if defined, is the result's complete gradient, so that the op can
  // compute its own gradients in the same pass and keep them for its backward.
  virtual Tensor compute(const Tensor& gradient) = 0;

  // The same if the complete gradient is the matmul a b, which only this op reads: `gradient`, the
  // tensor that its backward will be passed, may stay unwritten. Undefined, with nothing computed,
  // for ops that need it written. Returns `kept`, the result, if it is defined.
  virtual Tensor compute_from_matmul(const Tensor& a, const Tensor& b, const Tensor& gradient,
                                     const Tensor& kept) {
    static_cast<void>(a), static_cast<void>(b);
    static_cast<void>(gradient), static_cast<void>(kept);
    return {};
  }

  // Whether ops that save the result keep it and use this for its gradient only.
  bool keeps_result = false;
};

// Takes the sums of a result's gradient over all axes but the last: the gradient of a bias. An op
// that computes the whole gradient of the result can add them up in the same pass.
class GradientSums {
 public:
  GradientSums() = default;
  virtual ~GradientSums() = default;
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  virtual void set(const Tensor& gradient, const Tensor& sums) = 0;
};

// The autograd state of a tensor. It holds none of the tensor's data, so that a graph keeps alive
// only what its backward needs.
struct AutogradMeta {
  Shape shape;
  DType dtype = DType::f32;
  Device device;

  // Results of recorded ops.
  std::shared_ptr<Node> node;
  int output = 0;                             // index among the node's outputs
  bool retains_grad = false;                  // a backward adds the result's gradient to `grad`
  int uses = 0;                               // by recorded ops
  std::weak_ptr<ResultRecompute> recompute;   // empty if the result must be kept
  std::weak_ptr<GradientSums> gradient_sums;  // empty if the node's backward needs none
  bool is_kept = false;                       // the node keeps the result for its backward

  // Leaves, and results that retain their gradient.
  bool requires_grad = false;
  DType grad_dtype = DType::f32;
  Tensor grad;  // an unused buffer if holds_gradient is false
  bool holds_gradient = false;
  int pending = 0;  // contributions still to come in the running backward

  std::vector<Hook> hooks;
  std::vector<std::function<void()>> after_gradient;  // of leaves
};

// Calls `hook` with each finished gradient of `tensor`, which must require one: what a backward()
// has found, before a leaf adds it to the gradient that it has already. The tensor owns the
// hook: one that captures its own tensor, or one computed from it, keeps both alive forever. Let it
// use the gradient it is passed, and capture a name or an index. It runs in backward()'s state.
void on_gradient(const Tensor& tensor, Hook hook);

// Calls `function` each time a backward() is done with a leaf that has a gradient, after the hooks.
void after_gradient(const Tensor& leaf, std::function<void()> function);

}  // namespace binade::autograd
