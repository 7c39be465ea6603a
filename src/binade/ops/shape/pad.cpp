#include "binade/ops/shape/pad.h"

#include <algorithm>

#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/index/index.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

[[noreturn]] void refuse(const Tensor& x, const std::vector<int64_t>& padding,
                         const std::string& expected) {
  fail("pad", {.argument = "padding",
               .expected = expected,
               .found = to_string(Shape(padding)) + " for " + describe(x)});
}

struct Padding {
  int axis;
  int64_t before, after;
};

std::vector<Padding> padded_axes(const Tensor& x, const std::vector<int64_t>& padding) {
  if (padding.size() % 2 != 0 || padding.size() > 2 * static_cast<size_t>(x.rank()))
    refuse(x, padding, "a pair of sizes for each of the last axes");
  std::vector<Padding> axes;
  for (size_t i = 0; i < padding.size(); i += 2) {
    const int axis = x.rank() - 1 - static_cast<int>(i / 2);
    const int64_t before = padding[i], after = padding[i + 1], size = x.size(axis);
    // Any array is shorter than this; sums then do not overflow.
    constexpr int64_t limit = int64_t{1} << 48;
    const auto is_far = [](int64_t n) { return n < -limit || n > limit; };
    if (is_far(before) || is_far(after) || before + size + after < 0 || before + size < 0 ||
        after + size < 0)
      refuse(x, padding, "a result of at least 0 elements along each axis");
    axes.push_back({axis, before, after});
  }
  return axes;
}

// Filled with `value`, then x copied into it.
Tensor padded_constant(const Tensor& x, const std::vector<Padding>& axes, double value) {
  Shape shape = x.shape(), kept = x.shape();
  int64_t from = x.offset();
  for (const Padding& p : axes) {
    shape[p.axis] += p.before + p.after;
    kept[p.axis] += std::min<int64_t>(p.before, 0) + std::min<int64_t>(p.after, 0);
    from -= std::min<int64_t>(p.before, 0) * x.strides()[p.axis];
  }
  const Tensor y = full(shape, value, x.dtype(), x.device());
  if (kept.numel() == 0) return y;
  int64_t to = y.offset();
  for (const Padding& p : axes) to += std::max<int64_t>(p.before, 0) * y.strides()[p.axis];
  backend::of(x).elementwise.copy(x.strided(kept, x.strides(), from),
                                  y.strided(kept, y.strides(), to));
  return y;
}

// Which element of an axis of `size` stands at `at` before its first or after its last one.
int64_t source_of(PadMode mode, int64_t at, int64_t size) {
  if (mode == PadMode::replicate) return std::clamp<int64_t>(at, 0, size - 1);
  return at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
}

Tensor padded_from_itself(const Tensor& x, const Padding& p, PadMode mode) {
  const int64_t size = x.size(p.axis);
  std::vector<int64_t> index;
  for (int64_t at = -p.before; at < size + p.after; ++at)
    index.push_back(source_of(mode, at, size));
  return index_select(x, p.axis, tensor(index, {static_cast<int64_t>(index.size())}, x.device()));
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadOptions options) {
  require_defined("pad", "x", x);
  const std::vector<Padding> axes = padded_axes(x, padding);
  if (options.mode == PadMode::constant) {
    const Call call(Op::pad, {x});
    return call.result(padded_constant(call[0], axes, options.value),
                       [axes](const Tensor& dy, GradSlots dx) {
                         std::vector<Padding> inverse = axes;
                         for (Padding& p : inverse) p = {p.axis, -p.before, -p.after};
                         dx[0].add(padded_constant(dy, inverse, 0));
                       });
  }
  for (const Padding& p : axes) {
    const int64_t most = options.mode == PadMode::reflect ? x.size(p.axis) - 1
                         : x.size(p.axis) > 0             ? p.before + p.after
                                                          : 0;
    if (p.before < 0 || p.after < 0 || std::max(p.before, p.after) > std::max<int64_t>(most, 0))
      refuse(x, padding,
             options.mode == PadMode::reflect ? "at least 0 and less than the axis"
                                              : "at least 0, and an element to replicate");
  }
  Composite call(Op::pad, {x});
  Tensor y = call[0];
  for (const Padding& p : axes) y = padded_from_itself(y, p, options.mode);
  return call.result(y);
}

}  // namespace binade
