#pragma once

#include <span>

#include "binade/autograd/op.h"
#include "binade/tensor/tensor.h"

namespace binade::autograd {

struct Node;

// Sees every op of a thread as it runs: for diagnostics that look at values. What it is shown must
// not be changed.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  // After a forward: the inputs as the caller gave them and as the op took them, and the results,
  // which know the node they came from.
  virtual void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
                       std::span<const Tensor> outputs) = 0;
  // Around a backward. Afterwards the gradients of its inputs stand in the node's slots.
  virtual void before_backward(const Node& node) { static_cast<void>(node); }
  virtual void after_backward(const Node& node, std::span<const Tensor> dy) = 0;
};

// The watch of this thread; null where nobody looks.
OpObserver* op_observer();

// Makes `watch` (null: none) the one of this thread while it lives.
class OpObserverScope {
 public:
  explicit OpObserverScope(OpObserver* watch);
  ~OpObserverScope();
  OpObserverScope(const OpObserverScope&) = delete;
  OpObserverScope& operator=(const OpObserverScope&) = delete;

 private:
  OpObserver* previous_;
};

}  // namespace binade::autograd
