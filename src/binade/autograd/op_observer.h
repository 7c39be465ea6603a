#pragma once

#include <span>

#include "binade/autograd/op.h"
#include "binade/base/restore.h"
#include "binade/tensor/tensor.h"

namespace binade::autograd {

struct Node;

// Observes every op of a thread as it runs, for diagnostics. Observers must not modify the tensors.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  // After a forward: the inputs as given, the inputs after autocast, and the results, which refer
  // to their node if the op was recorded.
  virtual void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
                       std::span<const Tensor> outputs) = 0;
  // Before and after a backward. Afterwards the node's slots hold the gradients of its inputs.
  virtual void before_backward(const Node& node) { static_cast<void>(node); }
  virtual void after_backward(const Node& node, std::span<const Tensor> dy) = 0;
};

// This thread's observer, or null.
OpObserver* op_observer();

// For its lifetime, `observer` (or none, if null) observes this thread.
class [[nodiscard]] OpObserverScope {
 public:
  explicit OpObserverScope(OpObserver* observer);

 private:
  Restore<OpObserver*> scope_;
};

}  // namespace binade::autograd
