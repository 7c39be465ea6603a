#pragma once

#include <span>
#include <string_view>

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

// For its lifetime, this thread runs a user-defined op of this name, forward or backward. `name`
// must outlive the scope.
class [[nodiscard]] CustomOpScope {
 public:
  explicit CustomOpScope(std::string_view name);

 private:
  Restore<std::string_view> scope_;
};

// The user-defined op that this thread runs, the outermost if they nest; empty if none.
std::string_view custom_op_name();

}  // namespace binade::autograd
