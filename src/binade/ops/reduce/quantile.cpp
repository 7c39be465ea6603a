#include "binade/ops/reduce/quantile.h"

#include <cmath>

#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

void require_elements(const char* op, const Tensor& x, int64_t count) {
  if (count > 0) return;
  fail(op, {.argument = "x", .expected = "at least one element", .found = describe(x)});
}

// The quantile q of x, sorted along its last axis: the axis is gone.
Tensor at_quantile(const Tensor& sorted, double q) {
  require_between("quantile", "q", q, 0, 1);
  // The position is computed in the type of x, as in PyTorch.
  const auto last = static_cast<double>(sorted.size(-1) - 1);
  const bool is_wide = sorted.dtype() == DType::f64;
  const double rank = is_wide ? q * last : static_cast<float>(q) * static_cast<float>(last);
  const double below = std::floor(rank);
  const Tensor low = select(sorted, -1, static_cast<int64_t>(below));
  const Tensor high = select(sorted, -1, static_cast<int64_t>(std::ceil(rank)));
  const double weight = rank - below;
  const Tensor step = high - low;
  // Of the nearer neighbor, so that both ends are exact.
  return weight < 0.5 ? low + step * weight : high - step * (1 - weight);
}

// NaN where a line of x has one; it is sorted last.
Tensor with_nan(const Tensor& y, const Tensor& sorted) {
  const Tensor last = select(sorted, -1, sorted.size(-1) - 1);
  return where(is_nan(last), last, y);
}

Tensor sorted_lines(const Tensor& x, int axis) {
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64)
    fail("quantile", {.argument = "x", .expected = "f32 or f64", .found = describe(x)});
  require_elements("quantile", x, x.shape()[axis]);
  return transpose(sort(x, axis).values, axis, -1);
}

// A result of lines, whose axis was moved to the end, in the order of x's axes.
Tensor in_place_of_lines(const Tensor& y, int axis, bool keep) {
  const Tensor back = transpose(unsqueeze(y, -1), axis, -1);
  return keep ? back : squeeze(back, axis);
}

// Whether a quantile is that of all elements: without an axis, or of a number.
bool takes_all(const Tensor& x, std::optional<int64_t> axis) {
  if (x.rank() == 0) normalize_axis("quantile", axis.value_or(0), 1);
  return !axis || x.rank() == 0;
}

// A quantile of all elements, with the rank of x if it is kept.
Tensor of_all(const Tensor& y, const Tensor& x, bool keep) {
  Shape shape = y.shape();
  for (int i = 0; keep && i < x.rank(); ++i) shape.push_back(1);
  return reshape(y, shape);
}

}  // namespace

Tensor median(const Tensor& x) {
  require_defined("median", "x", x);
  if (x.numel() == 0)
    return full({}, is_floating(x.dtype()) ? std::nan("") : 0, x.dtype(), x.device());
  return median(reshape(x, {-1}), 0).values;
}

Sorted median(const Tensor& x, int64_t axis, bool keep) {
  require_defined("median", "x", x);
  if (x.rank() == 0) {
    const Sorted one = median(reshape(x, {1}), axis, true);
    return {reshape(one.values, {}), reshape(one.index, {})};
  }
  const int at = normalize_axis("median", axis, x.rank());
  const int64_t count = x.shape()[at];
  require_elements("median", x, count);
  const Tensor order = argsort(x.detach(), at);
  Tensor index = slice(order, at, (count - 1) / 2, (count - 1) / 2 + 1);
  if (is_floating(x.dtype())) {
    // NaN is sorted last: where there is one, the first of them.
    const Tensor nan = is_nan(x.detach());
    index = where(any(nan, at, true), argmax(cast(nan, DType::f32), at, true), index);
  }
  const Tensor values = gather(x, at, index);
  if (keep) return {values, index};
  return {squeeze(values, at), squeeze(index, at)};
}

Tensor quantile(const Tensor& x, double q, std::optional<int64_t> axis, bool keep) {
  require_defined("quantile", "x", x);
  if (takes_all(x, axis)) return of_all(quantile(reshape(x, {-1}), q, 0), x, keep);
  const int at = normalize_axis("quantile", *axis, x.rank());
  const Tensor sorted = sorted_lines(x, at);
  return in_place_of_lines(with_nan(at_quantile(sorted, q), sorted), at, keep);
}

Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int64_t> axis, bool keep) {
  require_defined("quantile", "x", x);
  require_defined("quantile", "q", q);
  if (takes_all(x, axis)) return of_all(quantile(reshape(x, {-1}), q, 0), x, keep);
  if (q.rank() > 1)
    fail("quantile", {.argument = "q", .expected = "a number or a line", .found = describe(q)});
  const int at = normalize_axis("quantile", *axis, x.rank());
  const Tensor sorted = sorted_lines(x, at);
  std::vector<Tensor> parts;
  for (const double one : to_vector(q))
    parts.push_back(in_place_of_lines(with_nan(at_quantile(sorted, one), sorted), at, keep));
  if (q.rank() == 0) return parts[0];
  if (!parts.empty()) return stack(parts, 0);
  Shape shape = in_place_of_lines(at_quantile(sorted, 0), at, keep).shape();
  shape.insert(0, 0);
  return zeros(shape, x.dtype(), x.device());
}

}  // namespace binade
