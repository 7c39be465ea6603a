#include "binade/ops/conv/pool.h"

#include <algorithm>

#include "binade/base/division.h"
#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

std::vector<int64_t> checked_sizes(const char* op, const Tensor& x,
                                   const std::vector<int64_t>& sizes) {
  require_compute(op, "x", x);
  if (x.rank() < 3)
    fail(op, {.argument = "x", .expected = "[n, c, spatial...]", .found = describe(x)});
  const auto axes = static_cast<size_t>(x.rank() - 2);
  const bool positive = std::all_of(sizes.begin(), sizes.end(), [](int64_t s) { return s > 0; });
  const bool filled = x.numel() > 0 || x.size(0) == 0 || x.size(1) == 0;
  if ((sizes.size() != 1 && sizes.size() != axes) || !positive || !filled)
    fail(op, {.argument = "sizes",
              .expected = "one size, or one per spatial axis, of at least 1",
              .found = to_string(Shape(sizes)) + " for " + describe(x)});
  return sizes.size() == 1 ? std::vector<int64_t>(axes, sizes[0]) : sizes;
}

// The windows of one axis, all as long as the longest: a shorter one repeats its last element,
// whose weight in an average is divided among the copies.
struct AxisWindows {
  int64_t out, length = 0;
  std::vector<int64_t> index;    // [out, length]
  std::vector<double> averages;  // the same

  AxisWindows(int64_t in, int64_t out) : out(out) {
    const auto begin = [=](int64_t i) { return i * in / out; };
    const auto end = [=](int64_t i) { return divide_up((i + 1) * in, out); };
    for (int64_t i = 0; i < out; ++i) length = std::max(length, end(i) - begin(i));
    for (int64_t i = 0; i < out; ++i) {
      for (int64_t j = begin(i); j < begin(i) + length; ++j) {
        const int64_t size = end(i) - begin(i), copies = length - size + 1;
        index.push_back(std::min(j, end(i) - 1));
        averages.push_back(1 / static_cast<double>(j < end(i) - 1 ? size : size * copies));
      }
    }
  }
};

// x with `axis` replaced by [out, length].
Tensor windows_of(const Tensor& x, int64_t axis, const AxisWindows& windows) {
  const Tensor index =
      tensor(windows.index, {static_cast<int64_t>(windows.index.size())}, x.device());
  Shape shape = x.shape();
  shape[static_cast<int>(axis)] = windows.out;
  shape.insert(static_cast<int>(axis) + 1, windows.length);
  return reshape(index_select(x, axis, index), shape);
}

}  // namespace

Tensor adaptive_avg_pool(const Tensor& x, const std::vector<int64_t>& given) {
  const std::vector<int64_t> sizes = checked_sizes("adaptive_avg_pool", x, given);
  Composite call(Op::adaptive_avg_pool, {x});
  Tensor y = cast(call[0], accumulation_type(call[0]));
  for (int64_t axis = 2; axis < x.rank(); ++axis) {
    const AxisWindows windows(x.size(axis), sizes[static_cast<size_t>(axis - 2)]);
    // One weight per [out, length], the same for all axes after it.
    Shape shape = Shape::filled(static_cast<int>(x.rank() - axis + 1), 1);
    shape[0] = windows.out;
    shape[1] = windows.length;
    const Tensor weights = tensor(windows.averages, shape, y.dtype(), x.device());
    y = sum(windows_of(y, axis, windows) * weights, axis + 1);
  }
  return call.result(cast(y, call[0].dtype()));
}

Tensor adaptive_max_pool(const Tensor& x, const std::vector<int64_t>& given) {
  const std::vector<int64_t> sizes = checked_sizes("adaptive_max_pool", x, given);
  Composite call(Op::adaptive_max_pool, {x});
  Tensor y = call[0];
  for (int64_t axis = 2; axis < x.rank(); ++axis) {
    const AxisWindows windows(x.size(axis), sizes[static_cast<size_t>(axis - 2)]);
    y = max(windows_of(y, axis, windows), axis + 1);
  }
  return call.result(y);
}

}  // namespace binade
