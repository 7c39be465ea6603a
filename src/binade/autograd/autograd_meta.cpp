#include "binade/autograd/autograd_meta.h"

#include "binade/autograd/engine.h"

namespace binade {
namespace autograd {
namespace {

AutogradMeta& leaf_meta(const char* caller, const Tensor& tensor) {
  const auto& meta = tensor.autograd_meta();
  if (meta == nullptr || meta->node != nullptr || !meta->requires_grad) {
    fail(caller, {.argument = "tensor",
                  .expected = "a leaf that requires a gradient",
                  .found = describe(tensor)});
  }
  return *meta;
}

}  // namespace

void on_gradient(const Tensor& tensor, Hook hook) {
  if (!tensor.requires_grad()) {
    fail("on_gradient", {.argument = "tensor",
                         .expected = "one that requires a gradient",
                         .found = describe(tensor)});
  }
  tensor.autograd_meta()->hooks.push_back(std::move(hook));
}

void after_gradient(const Tensor& leaf, std::function<void()> function) {
  if (!leaf.requires_grad() || !leaf.is_leaf()) {
    fail("after_gradient", {.argument = "leaf",
                            .expected = "a leaf that requires a gradient",
                            .found = describe(leaf)});
  }
  leaf.autograd_meta()->after_gradient.push_back(std::move(function));
}

}  // namespace autograd

void Tensor::add_hook(std::function<Tensor(const Tensor&)> hook) const {
  autograd::on_gradient(*this, std::move(hook));
}

bool Tensor::requires_grad() const {
  return defined() && autograd_meta() != nullptr &&
         (autograd_meta()->node != nullptr || autograd_meta()->requires_grad);
}

bool Tensor::is_leaf() const {
  return autograd_meta() == nullptr || autograd_meta()->node == nullptr;
}

Tensor& Tensor::set_requires_grad(bool value) {
  if (value && !is_compute(dtype())) {
    fail("set_requires_grad",
         {.argument = "dtype", .expected = "f64, f32, f16 or bf16", .found = describe(*this)});
  }
  if (!is_leaf()) {
    fail("set_requires_grad", {.argument = "tensor",
                               .expected = "a leaf",
                               .found = "the result of an op",
                               .hint = "detach() it first"});
  }
  if (autograd_meta() == nullptr) {
    auto meta = std::make_shared<autograd::AutogradMeta>();
    meta->shape = shape();
    meta->dtype = dtype();
    meta->device = device();
    meta->grad_dtype = accumulation_type(dtype());
    set_autograd_meta(std::move(meta));
  }
  autograd_meta()->requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
  if (!defined() || autograd_meta() == nullptr || !autograd_meta()->holds_gradient) return {};
  return autograd_meta()->grad;
}

void Tensor::retain_grad() const {
  if (!requires_grad()) {
    fail("retain_grad", {.argument = "tensor",
                         .expected = "one that requires a gradient",
                         .found = describe(*this)});
  }
  autograd::AutogradMeta& meta = *autograd_meta();
  if (meta.node == nullptr) return;
  meta.retains_grad = true;
  meta.grad_dtype = accumulation_type(meta.dtype);
}

void Tensor::zero_grad() const {
  if (!defined() || autograd_meta() == nullptr) return;
  autograd_meta()->grad = {};
  autograd_meta()->holds_gradient = false;
}

void Tensor::set_grad(const Tensor& grad) const {
  autograd::AutogradMeta& meta = autograd::leaf_meta("set_grad", *this);
  if (!grad.defined() || grad.shape() != shape() || grad.device() != device() ||
      !is_compute(grad.dtype())) {
    fail("set_grad", {.argument = "grad",
                      .expected = "a floating tensor like " + describe(*this),
                      .found = describe(grad)});
  }
  meta.grad = grad.detach();
  meta.grad_dtype = grad.dtype();
  meta.holds_gradient = true;
}

DType Tensor::grad_dtype() const { return autograd::leaf_meta("grad_dtype", *this).grad_dtype; }

void Tensor::set_grad_dtype(DType dtype) const {
  autograd::AutogradMeta& meta = autograd::leaf_meta("set_grad_dtype", *this);
  if (!is_compute(dtype)) {
    fail("set_grad_dtype", {.argument = "dtype",
                            .expected = "f64, f32, f16 or bf16",
                            .found = std::string(name(dtype))});
  }
  if (meta.grad_dtype != dtype) {
    meta.grad = {};
    meta.holds_gradient = false;
  }
  meta.grad_dtype = dtype;
}

void Tensor::backward(const Tensor& seed, RetainGraph retain) const {
  autograd::run_backward(*this, seed, retain);
}

}  // namespace binade
