#include "binade/backend/index.h"

#include <cstdlib>
#include <string>

#include "binade/backend/cpu/rows/strided.h"
#include "binade/backend/cuda/common/element_access.cuh"
#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/index/check.cuh"
#include "binade/backend/cuda/index/index_add.h"
#include "binade/backend/cuda/kernels.h"

namespace binade::backend::cuda {
namespace {

void check_types(const char* op, const TensorView& x, const TensorView& index,
                 const TensorView& y) {
  if (x.dtype != y.dtype) {
    fail(op, {.argument = "output",
              .expected = std::string(name(x.dtype)),
              .found = std::string(name(y.dtype))});
  }
  if (index.dtype != DType::i64 && index.dtype != DType::i32) {
    fail(op,
         {.argument = "index", .expected = "i64 or i32", .found = std::string(name(index.dtype))});
  }
}

// Indices of i64 or i32, checked to be below `size`.
struct Indices {
  const void* data;
  bool wide;
  int64_t size;

  Indices(const TensorView& view, int64_t limit)
      : data(view.data), wide(view.dtype == DType::i64), size(limit) {}

  __device__ int64_t at(int64_t offset) const {
    return checked_index(wide ? static_cast<const int64_t*>(data)[offset]
                              : int64_t{static_cast<const int32_t*>(data)[offset]},
                         size);
  }
};

// Elements move as bits of their size.
template <class T>
struct Gather {
  int64_t count;
  const T* x;
  Layout x_layout;
  int64_t step;  // of x along the indexed axis
  Indices indices;
  Layout index_layout;
  T* y;
  Layout y_layout;
};

template <class T>
__global__ void __launch_bounds__(elementwise_threads)
    gather_kernel(const __grid_constant__ Gather<T> a) {
  for (int64_t at = first_item(); at < a.count; at += item_step()) {
    const int64_t selected = a.indices.at(offset_of(a.index_layout, at));
    a.y[offset_of(a.y_layout, at)] = a.x[offset_of(a.x_layout, at) + selected * a.step];
  }
}

void gather(TensorView x, int axis, TensorView index, TensorView y) {
  check_types("gather", x, index, y);
  const int64_t count = y.numel();
  if (count == 0) return;
  // x as a view of y's shape with stride 0 along the axis; an index selects the step along it.
  const int64_t step = x.strides[axis];
  const Indices indices(index, x.shape[axis]);
  x.shape = y.shape;
  x.strides[axis] = 0;
  simplify({&x, &index, &y});
  cpu::with_bits(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(gather_kernel<T>, grid_for(count, elementwise_threads), elementwise_threads, 0,
           Gather<T>{.count = count,
                     .x = x.as<T>(),
                     .x_layout = Layout(x),
                     .step = step,
                     .indices = indices,
                     .index_layout = Layout(index),
                     .y = y.as<T>(),
                     .y_layout = Layout(y)});
  });
}

// The 1-D index as a view of y's shape that varies only along `axis`.
TensorView along(const TensorView& index, int axis, const Shape& shape) {
  TensorView view = index;
  view.strides = Strides::filled(shape.rank(), 0);
  view.strides[axis] = index.strides[0];
  view.shape = shape;
  return view;
}

// Copies the `width` elements of the other axes that each entry of the index selects.
template <class T>
struct Select {
  int64_t entries, width;
  Indices indices;
  int64_t index_step;
  const T* x;
  Layout x_layout;
  int64_t x_step;
  T* y;
  Layout y_layout;
  int64_t y_step;
};

template <class T>
__global__ void __launch_bounds__(elementwise_threads)
    select_kernel(const __grid_constant__ Select<T> a) {
  for (int64_t item = first_item(); item < a.entries * a.width; item += item_step()) {
    const int64_t entry = item / a.width, position = item - entry * a.width;
    const int64_t selected = a.indices.at(entry * a.index_step);
    a.y[offset_of(a.y_layout, position) + entry * a.y_step] =
        a.x[offset_of(a.x_layout, position) + selected * a.x_step];
  }
}

void index_select(TensorView x, int axis, TensorView index, TensorView y) {
  check_types("index_select", x, index, y);
  if (y.numel() == 0) return;
  const int64_t x_step = x.strides[axis], y_step = y.strides[axis];
  TensorView from = cpu::without_axis(x, axis), to = cpu::without_axis(y, axis);
  simplify({&from, &to});
  if (std::abs(y_step) < std::abs(to.strides.back()) || to.shape.back() == 1) {
    return gather(x, axis, along(index, axis, y.shape), y);
  }
  const Indices indices(index, x.shape[axis]);
  const auto select = [&](auto tag, const TensorView& source, const TensorView& target, int64_t n) {
    using T = typename decltype(tag)::type;
    const int64_t entries = index.shape[0], width = target.numel();
    launch(select_kernel<T>, grid_for(entries * width, elementwise_threads), elementwise_threads, 0,
           Select<T>{.entries = entries,
                     .width = width,
                     .indices = indices,
                     .index_step = index.strides[0],
                     .x = source.as<T>(),
                     .x_layout = Layout(source),
                     .x_step = x_step / n,
                     .y = target.as<T>(),
                     .y_layout = Layout(target),
                     .y_step = y_step / n});
  };
  const int64_t n = static_cast<int64_t>(access_bytes / size_of(y.dtype));
  const bool in_packs = to.shape.back() % n == 0 && x_step % n == 0 && y_step % n == 0 &&
                        lies_in_packs(from, n, access_bytes) && lies_in_packs(to, n, access_bytes);
  if (in_packs) return select(TypeTag<Sixteen>{}, in_units(from, n), in_units(to, n), n);
  cpu::with_bits(y.dtype, [&](auto tag) { select(tag, from, to, 1); });
}

void scatter_add(TensorView x, int axis, TensorView index, TensorView y) {
  add_at(x, axis, index, y, NegativeIndex::refuse);
}

void index_add(TensorView x, int axis, TensorView index, TensorView y) {
  add_at(x, axis, along(index, axis, x.shape), y, NegativeIndex::refuse);
}

void bounds(TensorView index, TensorView bounds) {
  TensorView low = bounds, high = bounds;
  low.shape = high.shape = Shape::filled(index.rank(), 1);
  low.strides = high.strides = Strides::filled(index.rank(), 1);
  high.data = bounds.as<int64_t>() + bounds.strides[0];
  if (index.numel() == 0) {
    // Without indices none is out of range.
    fill(low, 0);
    fill(high, -1);
    return;
  }
  reduce_kernels.reduce(Reduction::min, index, {low});
  reduce_kernels.reduce(Reduction::max, index, {high});
}

}  // namespace

const IndexKernels index_kernels{
    .gather = gather,
    .scatter_add = scatter_add,
    .index_select = index_select,
    .index_add = index_add,
    .bounds = bounds,
};

}  // namespace binade::backend::cuda
