#include "binade/amp/trace.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "binade/autograd/cast_observer.h"
#include "binade/autograd/module_path.h"
#include "binade/autograd/node.h"
#include "binade/base/execution.h"

namespace binade::amp {

struct Recording {
  std::vector<TracedOp> ops;
  std::vector<TracedCast> pending;  // casts made for the op that is about to run
};

namespace {

// Of the thread that explain() runs on, and on its stack.
constinit execution::Slot<Recording*> recording(execution::Belongs::to_thread);

std::vector<DType> types(std::span<const Tensor> tensors) {
  std::vector<DType> result;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) result.push_back(tensor.dtype());
  }
  return result;
}

// The types of the gradients of a node's inputs: a leaf's buffer may be wider than the leaf.
std::vector<DType> gradient_types(const autograd::Node& node) {
  std::vector<DType> result;
  for (const autograd::GradSlot& slot : node.inputs) {
    if (!slot.needs_grad()) continue;
    const Tensor& buffer = slot.meta()->grad;
    result.push_back(buffer.defined() ? buffer.dtype() : slot.dtype());
  }
  return result;
}

// Adds backwards to the recording. The observer before it continues to see everything.
class BackwardTrace : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override {
    if (outer_ != nullptr) outer_->forward(op, inputs, compute, outputs);
  }
  void before_backward(const autograd::Node& node) override {
    if (outer_ != nullptr) outer_->before_backward(node);
  }
  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override {
    if (outer_ != nullptr) outer_->after_backward(node, dy);
    if (!tracing()) return;
    (*recording)
        ->ops.push_back({node.op, node.module, types(dy), types(dy), gradient_types(node),
                         std::exchange((*recording)->pending, {}), true});
  }

 private:
  autograd::OpObserver* outer_ = autograd::op_observer();
};

std::string list(const std::vector<DType>& dtypes) {
  std::string text;
  for (const DType dtype : dtypes)
    text += fmt::format("{}{}", text.empty() ? "" : " ", name(dtype));
  return text;
}

}  // namespace

bool tracing() { return *recording != nullptr; }

std::vector<TracedOp> explain(const std::function<void()>& program) {
  Recording own;
  const Restore<Recording*> traced(*recording, &own);
  BackwardTrace backwards;
  const autograd::OpObserverScope observed(&backwards);
  const autograd::CastObserverScope casts(&trace_cast);
  program();
  return std::move(own.ops);
}

TracePause::TracePause() {
  untraced_.emplace(*recording, nullptr);
  unobserved_.emplace(nullptr);
}

void TracePause::resume() {
  unobserved_.reset();
  untraced_.reset();
}

void trace_cast(const Tensor& from, const Tensor& to) {
  if (!tracing()) return;
  (*recording)->pending.push_back({from.dtype(), to.dtype(), from.bytes() + to.bytes()});
}

void trace_op(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
              std::span<const Tensor> outputs) {
  if (autograd::OpObserver* observer = autograd::op_observer())
    observer->forward(op, inputs, compute, outputs);
  if (!tracing()) return;
  (*recording)
      ->ops.push_back({op, autograd::module_path(), types(inputs), types(compute), types(outputs),
                       std::exchange((*recording)->pending, {})});
}

std::string trace_text(const std::vector<TracedOp>& trace) {
  std::string text = fmt::format("{:<30} {:<24} {:<18} {:<18} {:<12} {:>12}\n", "op", "module",
                                 "inputs", "compute", "output", "cast bytes");
  int64_t total = 0;
  size_t forward = 0, backward = 0;
  for (const TracedOp& op : trace) {
    int64_t bytes = 0;
    for (const TracedCast& cast : op.casts) bytes += cast.bytes;
    text += fmt::format("{:<30} {:<24} {:<18} {:<18} {:<12} {:>12}\n",
                        fmt::format("{}{}", name(op.op), op.backward ? " (backward)" : ""),
                        op.module.empty() ? "(the model itself)" : op.module, list(op.inputs),
                        list(op.compute), list(op.outputs), bytes);
    total += bytes;
    (op.backward ? backward : forward) += op.casts.size();
  }
  return text + fmt::format("{} ops, {} casts ({} forward, {} backward), {} bytes moved by casts\n",
                            trace.size(), forward + backward, forward, backward, total);
}

}  // namespace binade::amp
