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

// Indices below `size`, read wherever they are.
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
__global__ void __launch_bounds__(elementwise_threads)
    gather_kernel(int64_t count, const T* x, const __grid_constant__ Layout x_layout, int64_t step,
                  Indices indices, const __grid_constant__ Layout index_layout, T* y,
                  const __grid_constant__ Layout y_layout) {
  for (int64_t at = first_item(); at < count; at += item_step()) {
    const int64_t chosen = indices.at(offset_of(index_layout, at));
    y[offset_of(y_layout, at)] = x[offset_of(x_layout, at) + chosen * step];
  }
}

void gather(TensorView x, int axis, TensorView index, TensorView y) {
  check_types("gather", x, index, y);
  const int64_t count = y.numel();
  if (count == 0) return;
  // x as a view of y's shape that stands still along the axis; an index steps from there.
  const int64_t step = x.strides[axis];
  const Indices indices(index, x.shape[axis]);
  x.shape = y.shape;
  x.strides[axis] = 0;
  simplify({&x, &index, &y});
  cpu::with_bits(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(gather_kernel<T>, grid_for(count, elementwise_threads), elementwise_threads, 0, count,
           x.as<T>(), Layout(x), step, indices, Layout(index), y.as<T>(), Layout(y));
  });
}

// The 1-D index as a view of y's shape that varies along `axis` alone.
TensorView along(const TensorView& index, int axis, const Shape& shape) {
  TensorView view = index;
  view.strides = Strides::filled(shape.rank(), 0);
  view.strides[axis] = index.strides[0];
  view.shape = shape;
  return view;
}

// `width` elements of the other axes for each of the entries an index selects.
template <class T>
__global__ void __launch_bounds__(elementwise_threads)
    select_kernel(int64_t entries, int64_t width, Indices indices, int64_t index_step, const T* x,
                  const __grid_constant__ Layout x_layout, int64_t x_step, T* y,
                  const __grid_constant__ Layout y_layout, int64_t y_step) {
  for (int64_t item = first_item(); item < entries * width; item += item_step()) {
    const int64_t entry = item / width, place = item - entry * width;
    const int64_t chosen = indices.at(entry * index_step);
    y[offset_of(y_layout, place) + entry * y_step] =
        x[offset_of(x_layout, place) + chosen * x_step];
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
           entries, width, indices, index.strides[0], source.as<T>(), Layout(source), x_step / n,
           target.as<T>(), Layout(target), y_step / n);
  };
  const int64_t n = static_cast<int64_t>(access_bytes / size_of(y.dtype));
  const bool in_packs = to.shape.back() % n == 0 && x_step % n == 0 && y_step % n == 0 &&
                        lies_in_packs(from, n, access_bytes) && lies_in_packs(to, n, access_bytes);
  if (in_packs) return select(TypeTag<Sixteen>{}, in_units(from, n), in_units(to, n), n);
  cpu::with_bits(y.dtype, [&](auto tag) { select(tag, from, to, 1); });
}

void scatter_add(TensorView x, int axis, TensorView index, TensorView y) {
  add_at(x, axis, index, y, false);
}

void index_add(TensorView x, int axis, TensorView index, TensorView y) {
  add_at(x, axis, along(index, axis, x.shape), y, false);
}

void bounds(TensorView index, TensorView bounds) {
  TensorView low = bounds, high = bounds;
  low.shape = high.shape = Shape::filled(index.rank(), 1);
  low.strides = high.strides = Strides::filled(index.rank(), 1);
  high.data = bounds.as<int64_t>() + bounds.strides[0];
  if (index.numel() == 0) {
    // No index is out of range where there is none.
    fill(low, 0);
    fill(high, -1);
    return;
  }
  reduce_kernels.reduce(Reduction::min, index, low, false);
  reduce_kernels.reduce(Reduction::max, index, high, false);
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
