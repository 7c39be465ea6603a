#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/op.h"

namespace binade::autograd {

// A tensor kept for a backward, without its graph. get() fails if the data was changed meanwhile.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& tensor);  // NOLINT: implicit, so that captures read [x = Saved(x)]

  const Tensor& get() const;
  operator const Tensor&() const { return get(); }  // NOLINT: a saved tensor is used as a tensor
  operator TensorView() const { return get(); }     // NOLINT
  const Tensor* operator->() const { return &get(); }

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
};

// Where the gradient of one input goes.
class GradSlot {
 public:
  explicit GradSlot(std::shared_ptr<Meta> meta) : meta_(std::move(meta)) {}

  // Whether anybody needs this gradient; if not, computing it is waste.
  bool needs_grad() const { return meta_ != nullptr; }

  // Adds a gradient of the input's shape and any floating type. No-op where not wanted.
  void add(Tensor gradient) const;

  // For kernels that add by themselves: a buffer of the input's shape to write to, and whether it
  // already holds a gradient (beta 1) or not (beta 0).
  struct Target {
    Tensor buffer;
    bool accumulate;
  };
  Target target() const;

  const Shape& shape() const { return meta_->shape; }
  DType dtype() const { return meta_->dtype; }

  // For the engine.
  std::shared_ptr<Meta>& meta() { return meta_; }
  const std::shared_ptr<Meta>& meta() const { return meta_; }

 private:
  std::shared_ptr<Meta> meta_;
};

using GradSlots = std::span<const GradSlot>;

// Computes input gradients from output gradients. An undefined entry of `dy` is a zero gradient.
using Backward = std::function<void(std::span<const Tensor> dy, GradSlots dx)>;

// One recorded op.
struct Node {
  Op op;               // as the user called it
  std::string module;  // the module path the forward ran under
  uint64_t sequence;   // creation order: an op always comes after what it reads
  std::vector<GradSlot> inputs;
  std::vector<std::weak_ptr<Meta>> outputs;
  std::vector<Tensor> gradients;  // of the outputs, while a backward runs
  Backward backward;              // empty once the graph was released
  bool opaque = false;            // its backward runs a graph of its own (recompute)

  ~Node();
};

// Makes `outputs` the results of a recorded op on `inputs`, unless recording is off or no input
// requires a gradient. Undefined inputs are allowed and get no gradient. Returns the node or null.
Node* record(Op op, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
             Backward backward);

// What is recorded on this thread while it lives belongs to `op`, which is made of other ops. The
// outermost one counts: it is what the user called.
class CompositeScope {
 public:
  explicit CompositeScope(Op op);
  ~CompositeScope();
  CompositeScope(const CompositeScope&) = delete;
  CompositeScope& operator=(const CompositeScope&) = delete;

 private:
  bool outermost_;
};

// Whether record() would record anything for these inputs.
bool recording(std::span<const Tensor> inputs);

}  // namespace binade::autograd
