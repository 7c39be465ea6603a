#include "binade/ops/create/copy.h"

#include "binade/autograd/grad_mode.h"
#include "binade/backend/transfer.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

void check_in_place(const char* op, const Tensor& x) {
  ops::require_defined(op, "x", x);
  if (!x.requires_grad() || !autograd::grad_enabled()) return;
  fail(op, {.argument = "x",
            .expected = "a tensor outside of any graph",
            .found = describe(x) + " that requires a gradient",
            .hint = "change it under NoGrad, or compute a new tensor"});
}

}  // namespace

void fill_(const Tensor& x, double value) {
  check_in_place("fill_", x);
  backend::of(x).elementwise.fill(x, value);
  x.bump_version();
}

void copy_(const Tensor& x, const Tensor& source) {
  check_in_place("copy_", x);
  ops::require_defined("copy_", "source", source);
  if (broadcast("copy_", source.shape(), x.shape()) != x.shape()) {
    fail("copy_", {.argument = "source",
                   .expected = "a shape that broadcasts to " + to_string(x.shape()),
                   .found = describe(source)});
  }
  const Tensor local = to(source.detach(), x.device());
  backend::of(x).elementwise.copy(TensorView(local).expanded(x.shape()), x);
  x.bump_version();
}

Tensor& Tensor::operator=(const Tensor& values) && {
  if (this == &values) return *this;
  ops::require_outside_of_graph("x[i] = values", "values", values);
  copy_(*this, values);
  return *this;
}

Tensor& Tensor::operator=(double value) && {
  fill_(*this, value);
  return *this;
}

void add_(const Tensor& x, const Tensor& other, double alpha) {
  check_in_place("add_", x);
  ops::require_shape("add_", "other", other, x.shape());
  ops::require_device("add_", "other", other, x);
  backend::of(x).elementwise.axpby(alpha, other, 1, x);
  x.bump_version();
}

Tensor clone(const Tensor& x) {
  ops::require_defined("clone", "x", x);
  const ops::Call call(Op::clone, {x});
  Tensor copy = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend::of(x).elementwise.copy(x, copy);
  return call.result(copy, [](const Tensor& dy, autograd::GradSlots dx) { dx[0].add(dy); });
}

Tensor to(const Tensor& x, Device device) {
  ops::require_defined("to", "x", x);
  if (x.device() == device) return x;
  const ops::Call call(Op::clone, {x});
  return call.result(backend::transfer(ops::dense(x), device),
                     [home = x.device()](const Tensor& dy, autograd::GradSlots dx) {
                       dx[0].add(backend::transfer(ops::dense(dy), home));
                     });
}

}  // namespace binade
