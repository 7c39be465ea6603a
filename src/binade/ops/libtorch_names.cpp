#include "binade/ops/libtorch_names.h"

#include <limits>

#include "binade/ops/common.h"

namespace binade {

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  ops::require_defined("allclose", "a", a);
  ops::require_defined("allclose", "b", b);
  return all(isclose(a, b, rtol, atol, equal_nan)).item() != 0;
}

Tensor clamp_min(const Tensor& x, double low) {
  return clamp(x, low, std::numeric_limits<double>::infinity());
}

Tensor clamp_max(const Tensor& x, double high) {
  return clamp(x, -std::numeric_limits<double>::infinity(), high);
}

Tensor view(const Tensor& x, const Shape& shape) {
  const Tensor y = reshape(x, shape);
  if (y.storage() == x.storage()) return y;
  fail("view", {.argument = "shape",
                .expected = "one that the strides " + to_string(x.strides()) + " allow",
                .found = describe(x) + " to " + to_string(shape),
                .hint = "use reshape(), which copies"});
}

Tensor t(const Tensor& x) {
  ops::require_defined("t", "x", x);
  if (x.rank() > 2)
    fail("t", {.argument = "x", .expected = "at most 2 dimensions", .found = describe(x)});
  return x.rank() < 2 ? x : transpose(x, 0, 1);
}

Tensor squeeze(const Tensor& x) {
  ops::require_defined("squeeze", "x", x);
  Shape shape;
  for (const int64_t size : x.shape()) {
    if (size != 1) shape.push_back(size);
  }
  return reshape(x, shape);
}

std::vector<Tensor> unbind(const Tensor& x, int64_t axis) {
  ops::require_defined("unbind", "x", x);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < x.size(axis); ++i) parts.push_back(select(x, axis, i));
  return parts;
}

}  // namespace binade
