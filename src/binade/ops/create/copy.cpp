#include "binade/ops/create/copy.h"

#include "binade/autograd/grad_mode.h"
#include "binade/backend/transfer.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/in_place.h"

namespace binade {

void fill_(const Tensor& x, double value) {
  ops::require_writable("fill_", x, false);
  backend::of(x).elementwise.fill(x, value);
  x.bump_version();
  if (x.requires_grad() && autograd::grad_enabled()) x.record_write(full_like(x, value), false);
}

void copy_(const Tensor& x, const Tensor& source) {
  ops::require_defined("copy_", "x", x);
  ops::require_defined("copy_", "source", source);
  ops::require_writable("copy_", x, ops::write_records(x, source));
  if (broadcast("copy_", source.shape(), x.shape()) != x.shape()) {
    fail("copy_", {.argument = "source",
                   .expected = "a shape that broadcasts to " + to_string(x.shape()),
                   .found = describe(source)});
  }
  ops::write(x, to(source, x.device()), false);
}

Tensor& Tensor::operator=(const Tensor& values) && {
  if (this != &values) binade::copy_(*this, values);
  return *this;
}

Tensor& Tensor::operator=(double value) && {
  binade::fill_(*this, value);
  return *this;
}

void add_(const Tensor& x, const Tensor& other, double alpha) {
  ops::require_defined("add_", "x", x);
  ops::require_defined("add_", "other", other);
  if (broadcast("add_", other.shape(), x.shape()) != x.shape()) {
    fail("add_", {.argument = "other",
                  .expected = "a shape that broadcasts to " + to_string(x.shape()),
                  .found = describe(other)});
  }
  ops::require_device("add_", "other", other, x);
  const bool records = ops::write_records(x, other);
  ops::require_writable("add_", x, records);
  if (records) return ops::write(x, add(x, mul(other, alpha)), true);
  const Tensor source = ops::unaffected_by_write(x, other);
  backend::of(x).elementwise.axpby(alpha, TensorView(source).expanded(x.shape()), 1, x);
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
