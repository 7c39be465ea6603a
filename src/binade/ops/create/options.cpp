#include "binade/ops/create/options.h"

#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade {

void refuse_accessor(const Tensor& x, size_t rank) {
  fail("accessor",
       {.argument = "x", .expected = std::to_string(rank) + " dimensions", .found = describe(x)});
}

Tensor Tensor::cpu() const { return binade::to(*this, Device::cpu()); }

Tensor Tensor::to(const TensorOptions& options) const {
  const Tensor moved = binade::to(*this, options.device_or(device()));
  return binade::cast(moved, options.dtype_or(dtype()));
}

Tensor Tensor::to(const Tensor& like) const {
  return binade::cast(binade::to(*this, like.device()), like.dtype());
}

Tensor Tensor::new_zeros(const Shape& shape) const { return new_full(shape, 0); }
Tensor Tensor::new_ones(const Shape& shape) const { return new_full(shape, 1); }
Tensor Tensor::new_zeros(const Shape& shape, const TensorOptions& options) const {
  return options.applied(full(shape, 0, options.dtype_or(dtype()), options.device_or(device())));
}
Tensor Tensor::new_ones(const Shape& shape, const TensorOptions& options) const {
  return options.applied(full(shape, 1, options.dtype_or(dtype()), options.device_or(device())));
}
std::vector<Tensor> Tensor::split_with_sizes(const std::vector<int64_t>& sizes,
                                             int64_t axis) const {
  return binade::split(*this, sizes, axis);
}
Tensor Tensor::new_full(const Shape& shape, double value) const {
  return full(shape, value, dtype(), device());
}

Tensor zeros(const Shape& shape, const TensorOptions& options) {
  return options.applied(zeros(shape, options.dtype(), options.device()));
}

Tensor ones(const Shape& shape, const TensorOptions& options) {
  return options.applied(ones(shape, options.dtype(), options.device()));
}

Tensor full(const Shape& shape, double value, const TensorOptions& options) {
  return options.applied(full(shape, value, options.dtype(), options.device()));
}

Tensor empty(const Shape& shape, const TensorOptions& options) {
  return options.applied(Tensor::empty(shape, options.dtype(), options.device()));
}

Tensor rand(const Shape& shape, const TensorOptions& options) {
  return options.applied(rand(shape, std::optional(options.dtype()), options.device()));
}

Tensor randn(const Shape& shape, const TensorOptions& options) {
  return options.applied(randn(shape, std::optional(options.dtype()), options.device()));
}

Tensor eye(int64_t size, const TensorOptions& options) {
  return options.applied(eye(size, size, options.dtype(), options.device()));
}

Tensor linspace(double first, double last, int64_t count, const TensorOptions& options) {
  return options.applied(linspace(first, last, count, options.dtype(), options.device()));
}

}  // namespace binade
