#include "binade/ops/reduce/reduce.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;
using backend::Binary;
using backend::Reduction;
using backend::Unary;

// x's shape with the reduced axes set to 1, and without them.
struct ReducedShape {
  Shape kept;
  Shape dropped;
  int64_t count;  // elements per result
};

ReducedShape reduced_shape(std::string_view op, const Tensor& x, const Axes& axes) {
  std::vector<bool> reduced(static_cast<size_t>(x.rank()), axes.empty());
  for (const int64_t axis : axes) {
    const auto at = static_cast<size_t>(normalize_axis(op.data(), axis, x.rank()));
    if (reduced[at])
      fail(op, {.argument = "axes",
                .expected = "each axis once",
                .found = std::to_string(axis) + " twice"});
    reduced[at] = true;
  }
  ReducedShape result{x.shape(), {}, 1};
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (reduced[static_cast<size_t>(axis)]) {
      result.count *= x.shape()[axis];
      result.kept[axis] = 1;
    } else {
      result.dropped.push_back(x.shape()[axis]);
    }
  }
  return result;
}

Tensor reduce(Reduction op, const Tensor& x, const Shape& kept, DType dtype) {
  Tensor y = Tensor::empty(kept, dtype, x.device());
  backend::of(x).reduce.reduce(op, x, {y});
  return y;
}

Tensor compute(Binary op, const Tensor& a, const Tensor& b, const Tensor& like) {
  Tensor y = Tensor::empty(like.shape(), like.dtype(), like.device());
  backend::of(y).elementwise.binary(op, TensorView(a).expanded(y.shape()),
                                    TensorView(b).expanded(y.shape()), y);
  return y;
}

void require_elements(std::string_view op, const Tensor& x, const ReducedShape& shape) {
  if (shape.count == 0 && shape.kept.numel() > 0) {
    fail(op, {.argument = "x",
              .expected = "at least one element along the reduced axes",
              .found = describe(x)});
  }
}

// Adds the gradient factor * dy, repeated along the reduced axes.
void add_spread(const GradSlot& slot, const Tensor& dy, const Shape& kept, double factor) {
  const auto [buffer, accumulate] = slot.target();
  const TensorView spread = TensorView(viewed(dense(dy), kept)).expanded(slot.shape());
  backend::of(dy).elementwise.axpby(factor, spread, accumulate ? 1 : 0, buffer);
}

Tensor linear_reduction(Op op, Reduction kernel, const Tensor& x, const Axes& axes, bool keep,
                        std::optional<DType> dtype) {
  require_defined(name(op), "x", x);
  const bool integral = !is_floating(x.dtype());
  if (integral && kernel == Reduction::mean && !dtype) {
    fail(name(op), {.argument = "x",
                    .expected = "a floating type",
                    .found = describe(x),
                    .hint = "name a dtype"});
  }
  if (dtype && !is_compute(*dtype) && !(integral && *dtype == DType::i64)) {
    fail(name(op), {.argument = "dtype",
                    .expected = "f64, f32, f16 or bf16",
                    .found = std::string(name(*dtype))});
  }
  const Call call(op, {x}, dtype.has_value());
  const ReducedShape shape = reduced_shape(name(op), x, axes);
  const DType type = dtype.value_or(integral ? DType::i64 : call[0].dtype());
  const Tensor y = reduce(kernel, call[0], shape.kept, type);
  const double factor =
      kernel == Reduction::mean ? 1.0 / static_cast<double>(std::max<int64_t>(shape.count, 1)) : 1;
  return call.result(keep ? y : viewed(y, shape.dropped),
                     [kept = shape.kept, factor](const Tensor& dy, GradSlots dx) {
                       add_spread(dx[0], dy, kept, factor);
                     });
}

// Floating types of 16 bits or more, integers and bool.
void require_number(std::string_view op, const Tensor& x) {
  require_defined(op, "x", x);
  if (is_floating(x.dtype())) require_compute(op, "x", x);
}

Tensor extremum(Op op, Reduction kernel, const Tensor& x, const Axes& axes, bool keep) {
  require_number(name(op), x);
  const ReducedShape shape = reduced_shape(name(op), x, axes);
  require_elements(name(op), x, shape);
  const Call call(op, {x});
  const Tensor y = reduce(kernel, call[0], shape.kept, call[0].dtype());
  return call.result(
      keep ? y : viewed(y, shape.dropped),
      [kept = shape.kept, x = Saved(call[0]), y = Saved(y)](const Tensor& dy, GradSlots dx) {
        const Tensor is_extreme = Tensor::empty(x->shape(), accumulation_type(x), x->device());
        backend::of(dy).elementwise.binary(Binary::equal, x,
                                           TensorView(y.get()).expanded(x->shape()), is_extreme);
        const Tensor count = reduce(Reduction::sum, is_extreme, kept, is_extreme.dtype());
        const Tensor each = compute(Binary::div, viewed(dense(dy), kept), count, count);
        dx[0].add(compute(Binary::mul, is_extreme, each, is_extreme));
      });
}

Tensor arg(Op op, bool largest, const Tensor& x, int64_t axis, bool keep) {
  require_number(name(op), x);
  const int at = normalize_axis(name(op).data(), axis, x.rank());
  if (x.shape()[at] == 0) {
    fail(
        name(op),
        {.argument = "x", .expected = "at least one element along the axis", .found = describe(x)});
  }
  const Call call(op, {x});
  Shape kept = x.shape();
  kept[at] = 1;
  const Tensor y = Tensor::empty(kept, DType::i64, x.device());
  backend::of(x).reduce.arg(largest, call[0], at, y);
  Shape dropped = kept;
  dropped.erase(at);
  return call.result(keep ? y : viewed(y, dropped));
}

// s^(1/p) of a sum of powers, with a zero gradient if the sum is zero.
Tensor root(const Tensor& s, double p) {
  const auto number = [&](double value) { return full({}, value, s.dtype(), s.device()); };
  const Tensor zero = eq(s, number(0));
  const Tensor safe = where(zero, number(1), s);
  return where(zero, number(0), p == 2 ? sqrt(safe) : pow(safe, 1 / p));
}

// |x|^p, with a zero gradient at 0, where it is infinite for p < 1.
Tensor magnitudes_to(double p, const Tensor& x) {
  if (p >= 1) return pow(abs(x), p);
  const auto number = [&](double value) { return full({}, value, x.dtype(), x.device()); };
  const Tensor zero = eq(x, number(0));
  return where(zero, number(0), pow(abs(where(zero, number(1), x)), p));
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keep, std::optional<DType> dtype) {
  return linear_reduction(Op::sum, Reduction::sum, x, axes, keep, dtype);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keep, std::optional<DType> dtype) {
  return linear_reduction(Op::mean, Reduction::mean, x, axes, keep, dtype);
}

Tensor max(const Tensor& x, const Axes& axes, bool keep) {
  return extremum(Op::max, Reduction::max, x, axes, keep);
}
Tensor min(const Tensor& x, const Axes& axes, bool keep) {
  return extremum(Op::min, Reduction::min, x, axes, keep);
}
Tensor argmax(const Tensor& x, int64_t axis, bool keep) {
  return arg(Op::argmax, true, x, axis, keep);
}
Tensor argmin(const Tensor& x, int64_t axis, bool keep) {
  return arg(Op::argmin, false, x, axis, keep);
}

// The gradient is that of the last running product, which is right for zeros too.
Tensor prod(const Tensor& x, const Axes& axes, bool keep) {
  require_number("prod", x);
  const ReducedShape shape = reduced_shape("prod", x, axes);
  const Call call(Op::prod, {x});
  const DType dtype = is_floating(x.dtype()) ? call[0].dtype() : DType::i64;
  const Tensor y = reduce(Reduction::prod, call[0], shape.kept, dtype);
  return call.result(keep ? y : viewed(y, shape.dropped), [kept = shape.kept, x = Saved(call[0])](
                                                              const Tensor& dy, GradSlots dx) {
    if (x->numel() == 0) {
      dx[0].target();  // an empty gradient is a gradient
      return;
    }
    // Reduced axes last and joined to one: each row holds the factors of one product.
    std::vector<int64_t> order, reduced;
    for (int axis = 0; axis < x->rank(); ++axis) {
      (kept[axis] == x->shape()[axis] ? order : reduced).push_back(axis);
    }
    order.insert(order.end(), reduced.begin(), reduced.end());
    const Tensor ordered = dense(permute(x.get(), order));
    const int64_t rows = kept.numel(), width = x->numel() / rows;
    const Tensor last = zeros({rows, width}, dy.dtype(), dy.device());
    backend::of(dy).elementwise.copy(viewed(dense(dy), {rows, 1}),
                                     slice(last, 1, width - 1, width));
    const Tensor gradient = Tensor::empty({rows, width}, accumulation_type(x), dy.device());
    backend::of(dy).scan.cumprod_backward(last, viewed(ordered, {rows, width}), 1, gradient);
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    dx[0].add(permute(viewed(gradient, ordered.shape()), back));
  });
}

Extremum max(const Tensor& x, int64_t axis, bool keep) {
  return {max(x, Axes(axis), keep), x, axis, keep, argmax};
}

Extremum min(const Tensor& x, int64_t axis, bool keep) {
  return {min(x, Axes(axis), keep), x, axis, keep, argmin};
}

Tensor var(const Tensor& x, const Axes& axes, bool keep, double correction) {
  require_compute("var", "x", x);
  require_finite("var", "correction", correction);
  if (x.dtype() != DType::f64) {  // which holds the squares of all narrower numbers, and their sum
    Composite call(Op::var, {x});
    return call.result(
        cast(var(cast(call[0], DType::f64), axes, keep, correction), call[0].dtype()));
  }
  const ReducedShape shape = reduced_shape("var", x, axes);
  require_elements("var", x, shape);
  const Call call(Op::var, {x});
  const Tensor y = Tensor::empty(shape.kept, call[0].dtype(), x.device());
  const Tensor average = Tensor::empty(shape.kept, accumulation_type(call[0]), x.device());
  backend::of(x).reduce.variance(call[0], correction, y, average);
  const double factor = 2 / (static_cast<double>(shape.count) - correction);
  return call.result(
      keep ? y : viewed(y, shape.dropped),
      [kept = shape.kept, factor, x = Saved(call[0]), average](const Tensor& dy, GradSlots dx) {
        const Tensor like = Tensor::empty(x->shape(), average.dtype(), x->device());
        const Tensor centered = compute(Binary::sub, x, average, like);
        const Tensor spread = compute(Binary::mul, centered, viewed(dense(dy), kept), like);
        const auto [buffer, accumulate] = dx[0].target();
        backend::of(dy).elementwise.axpby(factor, spread, accumulate ? 1 : 0, buffer);
      });
}

// In f64 as var(), whose result may be too large or too small for x's type when its root is not.
Tensor std(const Tensor& x, const Axes& axes, bool keep, double correction) {
  require_compute("std", "x", x);
  Composite call(Op::std, {x});
  const Tensor wide = cast(call[0], DType::f64);
  return call.result(cast(root(var(wide, axes, keep, correction), 2), call[0].dtype()));
}

Tensor any(const Tensor& x, const Axes& axes, bool keep) {
  require_number("any", x);
  Composite call(Op::any, {x});
  return call.result(greater(sum(not_equal(call[0], 0), axes, keep), 0));
}

Tensor all(const Tensor& x, const Axes& axes, bool keep) {
  require_number("all", x);
  Composite call(Op::all, {x});
  return call.result(eq(sum(eq(call[0], 0), axes, keep), 0));
}

// |x|^p is summed in f32 (f64 for f64).
Tensor norm(const Tensor& x, double p, const Axes& axes, bool keep) {
  require_compute("norm", "x", x);
  if (!(p > 0))
    fail("norm", {.argument = "p", .expected = "more than 0", .found = fmt::format("{}", p)});
  const ReducedShape shape = reduced_shape("norm", x, axes);
  if (std::isinf(p)) require_elements("norm", x, shape);
  Composite call(Op::norm, {x});
  const Tensor wide = cast(call[0], accumulation_type(call[0]));
  Tensor y;
  if (std::isinf(p)) {
    y = max(abs(wide), axes, keep);
  } else if (p == 2) {
    y = root(sum(square(wide), axes, keep), 2);
  } else if (p == 1) {
    y = sum(abs(wide), axes, keep);
  } else {
    y = root(sum(magnitudes_to(p, wide), axes, keep), p);
  }
  return call.result(cast(y, call[0].dtype()));
}

Tensor cumsum(const Tensor& x, int64_t axis) {
  require_number("cumsum", x);
  const int at = normalize_axis("cumsum", axis, x.rank());
  const Call call(Op::cumsum, {x});
  const DType dtype = is_floating(x.dtype()) ? call[0].dtype() : DType::i64;
  const Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  backend::of(x).reduce.cumsum(call[0], at, false, y);
  return call.result(y, [at](const Tensor& dy, GradSlots dx) {
    const Tensor sums = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
    backend::of(dy).reduce.cumsum(dy, at, true, sums);
    dx[0].add(sums);
  });
}

Tensor cumprod(const Tensor& x, int64_t axis) {
  require_compute("cumprod", "x", x);
  const int at = normalize_axis("cumprod", axis, x.rank());
  const Call call(Op::cumprod, {x});
  const Tensor y = Tensor::empty(x.shape(), call[0].dtype(), x.device());
  backend::of(x).scan.cumprod(call[0], at, y);
  return call.result(y, [at, x = Saved(call[0])](const Tensor& dy, GradSlots dx) {
    const Tensor gradient = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
    backend::of(dy).scan.cumprod_backward(dy, x, at, gradient);
    dx[0].add(gradient);
  });
}

}  // namespace binade
