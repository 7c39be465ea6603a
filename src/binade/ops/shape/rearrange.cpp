#include "binade/ops/shape/rearrange.h"

#include <algorithm>

#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

std::vector<bool> marked_axes(const char* op, const Tensor& x, const std::vector<int64_t>& axes) {
  std::vector<bool> marked(static_cast<size_t>(x.rank()), false);
  for (const int64_t axis : axes) {
    const auto at = static_cast<size_t>(normalize_axis(op, axis, x.rank()));
    if (marked[at])
      fail(op, {.argument = "axes",
                .expected = "each axis once",
                .found = std::to_string(axis) + " twice"});
    marked[at] = true;
  }
  return marked;
}

// A dense copy with some axes read backwards.
Tensor reversed(const Tensor& x, const std::vector<bool>& axes) {
  Strides strides = x.strides();
  int64_t offset = x.offset();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!axes[static_cast<size_t>(axis)] || x.shape()[axis] == 0) continue;
    offset += (x.shape()[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend::of(x).elementwise.copy(x.strided(x.shape(), strides, offset), y);
  return y;
}

// Along one axis. `shift` may be any number.
Tensor rolled(const Tensor& x, int64_t shift, int64_t axis) {
  const int64_t size = x.size(axis);
  if (size == 0) return x;
  const int64_t first = ((size - shift % size) % size + size) % size;
  if (first == 0) return x;
  return cat({slice(x, axis, first, size), slice(x, axis, 0, first)}, axis);
}

// x where a column is on the chosen side of the shifted diagonal, else 0.
Tensor triangle(Op op, const Tensor& x, int64_t diagonal, bool lower) {
  require_defined(name(op), "x", x);
  if (x.rank() < 2)
    fail(name(op), {.argument = "x", .expected = "at least 2 dimensions", .found = describe(x)});
  Composite call(op, {x});
  const Tensor row = unsqueeze(arange(x.size(-2), DType::i64, x.device()), 1);
  const Tensor column = arange(x.size(-1), DType::i64, x.device());
  const Tensor edge = row + diagonal;
  const Tensor kept = lower ? less_equal(column, edge) : greater_equal(column, edge);
  return call.result(where(kept, call[0], full({}, 0, call[0].dtype(), x.device())));
}

}  // namespace

Tensor flip(const Tensor& x, const std::vector<int64_t>& axes) {
  require_defined("flip", "x", x);
  const std::vector<bool> marked = marked_axes("flip", x, axes);
  const Call call(Op::flip, {x});
  return call.result(reversed(call[0], marked),
                     [marked](const Tensor& dy, GradSlots dx) { dx[0].add(reversed(dy, marked)); });
}

Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int64_t>& axes) {
  require_defined("roll", "x", x);
  if (shifts.size() != (axes.empty() ? 1 : axes.size())) {
    fail("roll", {.argument = "shifts",
                  .expected = axes.empty() ? "one" : "one per axis",
                  .found = std::to_string(shifts.size())});
  }
  Composite call(Op::roll, {x});
  // Results are copies, even if nothing moves.
  if (axes.empty()) {
    const Tensor line = reshape(call[0], {-1}), moved = rolled(line, shifts[0], 0);
    return call.result(moved.same_as(line) ? clone(call[0]) : reshape(moved, x.shape()));
  }
  Tensor y = call[0];
  for (size_t i = 0; i < axes.size(); ++i)
    y = rolled(y, shifts[i], normalize_axis("roll", axes[i], x.rank()));
  return call.result(y.same_as(call[0]) ? clone(y) : contiguous(y));
}

Tensor repeat(const Tensor& x, const std::vector<int64_t>& times) {
  require_defined("repeat", "x", x);
  const auto rank = static_cast<int64_t>(times.size());
  bool fits = rank >= x.rank();
  for (const int64_t count : times) fits = fits && count >= 0;
  if (!fits) {
    fail("repeat", {.argument = "times",
                    .expected = "a count of at least 0 for each axis of " + describe(x),
                    .found = to_string(Shape(times))});
  }
  Composite call(Op::repeat, {x});
  // Each axis gets one in front of it, along which it is repeated.
  Shape split, spread, result;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t old = axis - (rank - x.rank());
    const int64_t size = old < 0 ? 1 : x.size(old), count = times[static_cast<size_t>(axis)];
    split.push_back(1);
    split.push_back(size);
    spread.push_back(count);
    spread.push_back(size);
    result.push_back(count * size);
  }
  const bool once = std::all_of(times.begin(), times.end(), [](int64_t n) { return n == 1; });
  if (once) return call.result(clone(reshape(call[0], result)));
  return call.result(contiguous(reshape(expand(reshape(call[0], split), spread), result)));
}

Tensor tril(const Tensor& x, int64_t diagonal) { return triangle(Op::tril, x, diagonal, true); }
Tensor triu(const Tensor& x, int64_t diagonal) { return triangle(Op::triu, x, diagonal, false); }

}  // namespace binade
