#include "binade/autograd/node.h"

#include <atomic>

#include "binade/autograd/cast_observer.h"
#include "binade/autograd/engine.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/backend/backend.h"
#include "binade/base/execution.h"

namespace binade::autograd {
namespace {

std::atomic<uint64_t> next_sequence = 0;
// What a composite repeats is still part of it.
constinit execution::Slot<std::optional<Op>> thread_composite(execution::Belongs::to_work);

Tensor new_buffer(const AutogradMeta& meta, DType dtype, memory::Category category) {
  const memory::CategoryGuard guard(category);
  return Tensor::empty(meta.shape, dtype, meta.device);
}

void check_gradient(const AutogradMeta& meta, const Tensor& gradient) {
  if (gradient.shape() == meta.shape && is_compute(gradient.dtype()) &&
      gradient.device() == meta.device)
    return;
  fail(running_op(), {.argument = "gradient",
                      .expected = to_string(meta.shape) + " on " + to_string(meta.device),
                      .found = describe(gradient)});
}

void add_to_result(AutogradMeta& meta, Tensor gradient) {
  Tensor& sum = meta.node->gradients[static_cast<size_t>(meta.output)];
  const auto& kernels = backend::of(meta.device).elementwise;
  if (sum.defined()) {
    // Overwrite the first contribution only if it has no other owner and does not broadcast.
    const MemoryFormat format = memory_format(sum);
    Tensor target = sum.is_sole_owner() && is_in(format, sum)
                        ? sum
                        : empty(meta.shape, meta.dtype, meta.device, format);
    kernels.binary(backend::Binary::add, sum, gradient, target);
    sum = std::move(target);
  } else if (gradient.dtype() == meta.dtype) {
    sum = std::move(gradient);
  } else {
    sum = empty(meta.shape, meta.dtype, meta.device, memory_format(gradient));
    kernels.copy(gradient, sum);
    observe_cast(gradient, sum);
  }
}

}  // namespace

void add_to_own_gradient(AutogradMeta& meta, const Tensor& gradient) {
  if (!meta.grad.defined())
    meta.grad = new_buffer(meta, meta.grad_dtype, memory::Category::gradients);
  backend::of(meta.device).elementwise.axpby(1, gradient, meta.holds_gradient ? 1 : 0, meta.grad);
  observe_cast(gradient, meta.grad);
  meta.holds_gradient = true;
}

Saved::Saved(const Tensor& tensor)
    : tensor_(tensor.detach()), version_(tensor.defined() ? tensor.version() : 0) {}

const Tensor& Saved::get() const {
  if (tensor_.defined() && tensor_.version() != version_) {
    fail(running_op(),
         {.argument = "saved tensor " + describe(tensor_),
          .expected =
              "its data unchanged since the forward (version " + std::to_string(version_) + ")",
          .found = "version " + std::to_string(tensor_.version()),
          .hint = "an in-place change came between forward and backward: change a copy instead"});
  }
  return tensor_;
}

void GradSlot::add(Tensor gradient) const {
  if (!needs_grad()) return;
  check_gradient(*meta_, gradient);
  if (meta_->node == nullptr) {
    add_to_own_gradient(*meta_, gradient);
  } else {
    add_to_result(*meta_,
                  gradient.autograd_meta() == nullptr ? std::move(gradient) : gradient.detach());
  }
}

GradSlot::Target GradSlot::target(MemoryFormat format) const {
  if (meta_->node == nullptr) {
    if (!meta_->grad.defined())
      meta_->grad = new_buffer(*meta_, meta_->grad_dtype, memory::Category::gradients);
    return {meta_->grad, std::exchange(meta_->holds_gradient, true)};
  }
  Tensor& sum = meta_->node->gradients[static_cast<size_t>(meta_->output)];
  const bool accumulate = sum.defined();
  if (!accumulate) {
    sum = empty(meta_->shape, meta_->dtype, meta_->device, format);
  } else if (!sum.is_sole_owner() || !is_in(format, sum)) {
    Tensor copy = empty(meta_->shape, meta_->dtype, meta_->device, format);
    backend::of(meta_->device).elementwise.copy(sum, copy);
    sum = std::move(copy);
  }
  return {sum, accumulate};
}

// Destroys the graph below with a loop: recursion would overflow the stack on long chains of ops.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> doomed;
  const auto detach = [&doomed](Node& node) {
    node.backward = nullptr;
    for (GradSlot& input : node.inputs) {
      const std::shared_ptr<AutogradMeta> meta = std::move(input.meta());
      if (meta != nullptr && meta.use_count() == 1 && meta->node != nullptr)
        doomed.push_back(std::move(meta->node));
    }
  };
  detach(*this);
  while (!doomed.empty()) {
    const std::shared_ptr<Node> node = std::move(doomed.back());
    doomed.pop_back();
    if (node.use_count() == 1) detach(*node);
  }
}

CompositeScope::CompositeScope(Op op) : scope_(*thread_composite, thread_composite->value_or(op)) {}

bool recording(std::span<const Tensor> inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) return true;
  }
  return false;
}

Node* record(Op op, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
             Backward backward) {
  if (!recording(inputs)) return nullptr;
  auto node = std::make_shared<Node>();
  node->op = thread_composite->value_or(op);
  node->module = module_path();
  node->backward = std::move(backward);
  for (const Tensor& input : inputs) {
    node->inputs.emplace_back(input.requires_grad() ? input.autograd_meta() : nullptr);
    if (input.requires_grad() && !input.is_leaf()) ++input.autograd_meta()->uses;
  }
  // After the inputs: a view whose base was written just became the result of an op.
  node->sequence = next_sequence++;
  for (const Tensor& output : outputs) {
    auto meta = std::make_shared<AutogradMeta>();
    meta->shape = output.shape();
    meta->dtype = output.dtype();
    meta->device = output.device();
    meta->node = node;
    meta->output = static_cast<int>(node->outputs.size());
    node->outputs.emplace_back(meta);
    if (is_floating(output.dtype())) output.set_autograd_meta(std::move(meta));
  }
  return node.get();
}

}  // namespace binade::autograd
