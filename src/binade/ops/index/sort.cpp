#include "binade/ops/index/sort.h"

#include <numeric>

#include "binade/backend/capabilities.h"
#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/index/index.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

// The axes of a tensor with `axis` moved to the end.
std::vector<int64_t> axis_last(int rank, int axis) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), int64_t{0});
  order.erase(order.begin() + axis);
  order.push_back(axis);
  return order;
}

// Positions of the first k elements along `axis`: x's shape with k in place of the axis.
Tensor first_in_order(const Tensor& x, int axis, int64_t k, Order order) {
  const bool stays = backend::capabilities(x.device()).has_sequential_kernels;
  const Tensor source = stays ? x.detach() : to(x.detach(), Device::cpu());
  const std::vector<int64_t> forth = axis_last(x.rank(), axis);
  std::vector<int64_t> back(forth.size());
  for (size_t i = 0; i < forth.size(); ++i)
    back[static_cast<size_t>(forth[i])] = static_cast<int64_t>(i);
  const Tensor lines = dense(permute(source, forth));
  Shape shape = lines.shape();
  const int64_t width = shape[x.rank() - 1], rows = width > 0 ? x.numel() / width : 0;
  shape[x.rank() - 1] = k;
  const Tensor index = Tensor::empty(shape, DType::i64, source.device());
  if (index.numel() > 0)
    backend::of(source).index.sort(viewed(lines, {rows, width}), order == Order::descending,
                                   viewed(index, {rows, k}));
  return to(dense(permute(index, back)), x.device());
}

Tensor gathered(const Tensor& x, int axis, const Tensor& index) {
  if (is_compute(x.dtype())) return gather(x, axis, index);
  const Tensor y = Tensor::empty(index.shape(), x.dtype(), x.device());
  backend::of(x).index.gather(x, axis, index, y);
  return y;
}

// Types whose elements have an order and no scale beside them.
void require_ordered(const char* op, const Tensor& x) {
  require_defined(op, "x", x);
  if (is_compute(x.dtype()) || !is_floating(x.dtype())) return;
  fail(op, {.argument = "x", .expected = "f64, f32, f16, bf16 or integers", .found = describe(x)});
}

Sorted sorted(Op op, const Tensor& x, int axis, int64_t k, Order order) {
  Composite call(op, {x});
  Sorted result;
  result.index = first_in_order(call[0], axis, k, order);
  result.values = call.result(gathered(call[0], axis, result.index));
  return result;
}

}  // namespace

Sorted sort(const Tensor& x, int64_t axis, Order order) {
  require_ordered("sort", x);
  const int at = normalize_axis("sort", axis, x.rank());
  return sorted(Op::sort, x, at, x.shape()[at], order);
}

Tensor argsort(const Tensor& x, int64_t axis, Order order) {
  require_ordered("argsort", x);
  const int at = normalize_axis("argsort", axis, x.rank());
  return first_in_order(x, at, x.shape()[at], order);
}

Sorted topk(const Tensor& x, int64_t k, int64_t axis, Order order) {
  require_ordered("topk", x);
  const int at = normalize_axis("topk", axis, x.rank());
  if (k < 0 || k > x.shape()[at]) {
    fail("topk", {.argument = "k",
                  .expected = "0 to the " + std::to_string(x.shape()[at]) + " elements of the axis",
                  .found = std::to_string(k)});
  }
  return sorted(Op::topk, x, at, k, order);
}

}  // namespace binade
