#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/op.h"
#include "binade/base/restore.h"
#include "binade/tensor/memory_format.h"

namespace binade::autograd {

// A tensor saved for a backward, without its graph. get() fails if the data has changed since.
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

// Receives the gradient of one input of an op.
class GradSlot {
 public:
  explicit GradSlot(std::shared_ptr<AutogradMeta> meta) : meta_(std::move(meta)) {}

  // False if the gradient is unused and need not be computed.
  bool needs_grad() const { return meta_ != nullptr; }

  // Adds a gradient of the input's shape and any compute type. No-op unless needs_grad().
  void add(Tensor gradient) const;

  // For kernels that accumulate: a buffer of the input's shape, and whether it already holds a
  // gradient (beta 1) or must be overwritten (beta 0).
  struct Target {
    Tensor buffer;
    bool accumulate;
  };
  // The buffer is dense and in the given format; that of a leaf is always row-major.
  Target target(MemoryFormat format = MemoryFormat::row_major) const;

  const Shape& shape() const { return meta_->shape; }
  DType dtype() const { return meta_->dtype; }
  // The type of target()'s buffer: a leaf's may be wider than the leaf.
  DType gradient_dtype() const { return meta_->node == nullptr ? meta_->grad_dtype : meta_->dtype; }

  // For the engine.
  std::shared_ptr<AutogradMeta>& meta() { return meta_; }
  const std::shared_ptr<AutogradMeta>& meta() const { return meta_; }

 private:
  std::shared_ptr<AutogradMeta> meta_;
};

using GradSlots = std::span<const GradSlot>;

// Adds to the gradient that a leaf, or a result that retains its own, keeps.
void add_to_own_gradient(AutogradMeta& meta, const Tensor& gradient);

// Computes input gradients from output gradients. An undefined entry of `dy` is a zero gradient.
using Backward = std::function<void(std::span<const Tensor> dy, GradSlots dx)>;

// One recorded op.
struct Node {
  Op op;               // the op the user called
  std::string module;  // path of the module that ran the forward
  uint64_t sequence;   // creation order, which is a topological order
  std::vector<GradSlot> inputs;
  std::vector<std::weak_ptr<AutogradMeta>> outputs;
  std::vector<Tensor> gradients;  // of the outputs, while a backward runs
  Backward backward;              // empty once the graph is released
  bool opaque = false;            // its backward runs another graph (recompute)
  bool lists_leaves = false;      // of an opaque node: all leaves of that graph are its inputs

  ~Node();
};

// Records that an op computed `outputs` from `inputs`. Does nothing and returns null if recording
// is off or no input requires a gradient. Undefined inputs are allowed and get no gradient.
Node* record(Op op, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
             Backward backward);

// For its lifetime, ops recorded on this thread carry the name of `op`, a composite of other ops.
// Of nested scopes the outermost counts, because it is the op the user called.
class [[nodiscard]] CompositeScope {
 public:
  explicit CompositeScope(Op op);

 private:
  Restore<std::optional<Op>> scope_;
};

// Whether record() would record anything for these inputs.
bool recording(std::span<const Tensor> inputs);

}  // namespace binade::autograd
