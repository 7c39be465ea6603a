#include "binade/ops/index/index.h"

#include "binade/backend/capabilities.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;

// Checks the range of the indices, unless reading them would wait: then the kernels check.
void require_range(std::string_view op, const Tensor& index, const Tensor& x, int64_t size) {
  require_index(op, "index", index);
  require_device(op, "index", index, x);
  if (!backend::capabilities(index.device()).is_host_readable || index.numel() == 0) return;
  int64_t bounds[2];
  backend::of(index).index.bounds(index, {bounds, DType::i64, {2}, {1}, true});
  const auto [low, high] = bounds;
  if (low >= 0 && high < size) return;
  fail(op, {.argument = "index",
            .expected = "indices from 0 to " + std::to_string(size - 1),
            .found = std::to_string(low < 0 ? low : high)});
}

// Types whose elements stand for themselves: all but those with a scale beside them.
void require_plain(std::string_view op, const Tensor& x) {
  require_defined(op, "x", x);
  if (is_floating(x.dtype())) require_compute(op, "x", x);
}

// A gradient buffer, zeroed unless it already holds a gradient, for kernels that only add.
Tensor additive_target(const GradSlot& slot) {
  const auto [buffer, accumulate] = slot.target();
  if (!accumulate) backend::of(buffer).elementwise.fill(buffer, 0);
  return buffer;
}

// index must fit into x everywhere but along `axis`.
void require_fits(std::string_view op, const Tensor& index, const Tensor& x, int axis) {
  require_rank(op, "index", index, x.rank());
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis || index.shape()[i] <= x.shape()[i]) continue;
    fail(op,
         {.argument = "index",
          .expected = "no larger than " + describe(x) + " but along axis " + std::to_string(axis),
          .found = describe(index)});
  }
}

// Whether a put replaces each row of x: bool [rows, 1, ...].
Tensor rows_put(const Tensor& x, const Tensor& index) {
  const auto& kernels = backend::of(x);
  Shape shape = Shape::filled(x.rank(), 1);
  shape[0] = x.shape()[0];
  const Tensor count = Tensor::empty({shape[0]}, DType::f32, x.device()),
               ones = Tensor::empty({index.numel()}, DType::f32, x.device());
  kernels.elementwise.fill(count, 0);
  kernels.elementwise.fill(ones, 1);
  kernels.index.index_add(ones, 0, index, count);
  const bool checks = backend::capabilities(x.device()).is_host_readable;
  for (int64_t row = 0; checks && row < shape[0]; ++row) {
    if (count.data<float>()[row] <= 1) continue;
    fail("index_put", {.argument = "index",
                       .expected = "each row once",
                       .found = std::to_string(row) + " more than once",
                       .hint = "pass accumulate = true to add"});
  }
  const Tensor put = Tensor::empty(shape, DType::boolean, x.device());
  kernels.elementwise.copy(viewed(count, shape), put);
  return put;
}

// y = x with the rows in `put` set to zero; y = x if `put` is undefined.
void copy_without(const Tensor& x, const Tensor& put, const Tensor& y) {
  const auto& kernels = backend::of(x).elementwise;
  if (!put.defined()) return kernels.copy(x, y);
  const Tensor zero = Tensor::empty({}, y.dtype(), y.device());
  kernels.fill(zero, 0);
  kernels.where(TensorView(put).expanded(y.shape()), TensorView(zero).expanded(y.shape()), x, y);
}

}  // namespace

Tensor gather(const Tensor& x, int64_t axis, const Tensor& index) {
  require_plain("gather", x);
  const int at = normalize_axis("gather", axis, x.rank());
  require_range("gather", index, x, x.shape()[at]);
  require_fits("gather", index, x, at);
  const Call call(Op::gather, {x});
  const Tensor y = Tensor::empty(index.shape(), call[0].dtype(), x.device());
  backend::of(x).index.gather(call[0], at, index, y);
  return call.result(y, [at, index = Saved(index)](const Tensor& dy, GradSlots dx) {
    backend::of(dy).index.scatter_add(dy, at, index, additive_target(dx[0]));
  });
}

Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index) {
  require_plain("index_select", x);
  require_rank("index_select", "index", index, 1);
  const int at = normalize_axis("index_select", axis, x.rank());
  require_range("index_select", index, x, x.shape()[at]);
  const Call call(Op::index_select, {x});
  Shape shape = x.shape();
  shape[at] = index.numel();
  const Tensor y = Tensor::empty(shape, call[0].dtype(), x.device());
  backend::of(x).index.index_select(call[0], at, index, y);
  return call.result(y, [at, index = Saved(index)](const Tensor& dy, GradSlots dx) {
    backend::of(dy).index.index_add(dy, at, index, additive_target(dx[0]));
  });
}

Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  require_compute("scatter_add", "x", x);
  require_compute("scatter_add", "source", source);
  const int at = normalize_axis("scatter_add", axis, x.rank());
  require_range("scatter_add", index, x, x.shape()[at]);
  require_fits("scatter_add", index, x, at);
  require_shape("scatter_add", "source", source, index.shape());
  const Call call(Op::scatter_add, {x, source});
  require_same_dtype("scatter_add", call[0], call[1]);
  const Tensor y = Tensor::empty(x.shape(), call[0].dtype(), x.device());
  backend::of(x).elementwise.copy(call[0], y);
  backend::of(x).index.scatter_add(call[1], at, index, y);
  return call.result(y, [at, index = Saved(index)](const Tensor& dy, GradSlots dx) {
    dx[0].add(dy);
    if (!dx[1].needs_grad()) return;
    const Tensor selected = Tensor::empty(index->shape(), dy.dtype(), dy.device());
    backend::of(dy).index.gather(dy, at, index, selected);
    dx[1].add(selected);
  });
}

Tensor index_put(const Tensor& x, const Tensor& index, const Tensor& values, bool accumulate) {
  require_compute("index_put", "x", x);
  require_compute("index_put", "values", values);
  require_rank("index_put", "index", index, 1);
  if (x.rank() == 0)
    fail("index_put", {.argument = "x", .expected = "at least 1 dimension", .found = describe(x)});
  require_range("index_put", index, x, x.shape()[0]);
  Shape expected = x.shape();
  expected[0] = index.numel();
  require_shape("index_put", "values", values, expected);
  const Call call(Op::index_put, {x, values});
  require_same_dtype("index_put", call[0], call[1]);
  const Tensor put = accumulate ? Tensor() : rows_put(x, index);
  const Tensor y = Tensor::empty(x.shape(), call[0].dtype(), x.device());
  copy_without(call[0], put, y);
  backend::of(x).index.index_add(call[1], 0, index, y);
  return call.result(y,
                     [=, index = Saved(index), put = Saved(put)](const Tensor& dy, GradSlots dx) {
                       if (dx[1].needs_grad()) {
                         const Tensor selected = Tensor::empty(expected, dy.dtype(), dy.device());
                         backend::of(dy).index.index_select(dy, 0, index, selected);
                         dx[1].add(selected);
                       }
                       if (!dx[0].needs_grad()) return;
                       if (!put->defined()) return dx[0].add(dy);
                       const Tensor rest = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
                       copy_without(dy, put, rest);
                       dx[0].add(rest);
                     });
}

Tensor embedding(const Tensor& weight, const Tensor& index) {
  require_compute("embedding", "weight", weight);
  require_rank("embedding", "weight", weight, 2);
  require_range("embedding", index, weight, weight.shape()[0]);
  const Call call(Op::embedding, {weight});
  const Tensor flat = viewed(dense(index), {index.numel()});
  const int64_t width = weight.shape()[1];
  const Tensor rows = Tensor::empty({index.numel(), width}, call[0].dtype(), weight.device());
  backend::of(weight).index.index_select(call[0], 0, flat, rows);
  Shape shape = index.shape();
  shape.push_back(width);
  return call.result(viewed(rows, shape),
                     [flat = Saved(flat), width](const Tensor& dy, GradSlots dx) {
                       backend::of(dy).index.index_add(viewed(dense(dy), {flat->numel(), width}), 0,
                                                       flat, additive_target(dx[0]));
                     });
}

}  // namespace binade
