#include "binade/backend/index.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "binade/backend/cpu/index/index_add.h"
#include "binade/backend/cpu/index/sort.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/strided.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

void check_same_type(const char* op, const TensorView& x, const TensorView& y) {
  if (x.dtype == y.dtype) return;
  fail(op, {.argument = "output",
            .expected = std::string(name(x.dtype)),
            .found = std::string(name(y.dtype))});
}

template <class F>
void with_index_type(const char* op, const TensorView& index, F&& f) {
  if (index.dtype == DType::i64) return f(TypeTag<int64_t>{});
  if (index.dtype == DType::i32) return f(TypeTag<int32_t>{});
  fail(op,
       {.argument = "index", .expected = "i64 or i32", .found = std::string(name(index.dtype))});
}

void gather(TensorView x, int axis, TensorView index, TensorView y) {
  check_same_type("gather", x, y);
  if (y.numel() == 0) return;
  // x as a view of y's shape with stride 0 along the axis; an index selects the step along it.
  const int64_t step = x.strides[axis];
  x.shape = y.shape;
  x.strides[axis] = 0;
  sort_axes({&x, &index, &y});
  merge_axes({&x, &index, &y});
  const int inner = y.rank() - 1;
  const int64_t width = y.shape[inner], x_stride = x.strides[inner];
  const int64_t index_stride = index.strides[inner], y_stride = y.strides[inner];
  with_bits(y.dtype, [&](auto tag) {
    with_index_type("gather", index, [&](auto index_tag) {
      using T = typename decltype(tag)::type;
      using I = typename decltype(index_tag)::type;
      parallel_for(y.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end;) {
          const int64_t column = at % width, n = std::min(width - column, end - at);
          const T* from = x.as<T>() + offset_in(x, at);
          const I* indices = index.as<I>() + offset_in(index, at);
          T* to = y.as<T>() + offset_in(y, at);
          for (int64_t i = 0; i < n; ++i) {
            to[i * y_stride] = from[i * x_stride + indices[i * index_stride] * step];
          }
          at += n;
        }
      });
    });
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

// Copies the runs of the other axes that each entry of the index selects.
template <class T, class I>
void select_runs(const TensorView& x, int64_t x_step, const TensorView& index, const TensorView& y,
                 int64_t y_step) {
  const int inner = y.rank() - 1;
  const int64_t width = y.shape[inner], x_stride = x.strides[inner], y_stride = y.strides[inner];
  const int64_t outer = y.numel() / width, entries = index.shape[0];
  parallel_for(outer * entries, grain_for(width), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t entry = item % entries, first = item / entries * width;
      const int64_t selected = index.as<I>()[entry * index.strides[0]];
      const T* from = x.as<T>() + offset_in(x, first) + selected * x_step;
      T* to = y.as<T>() + offset_in(y, first) + entry * y_step;
      if (x_stride == 1 && y_stride == 1) {
        std::memcpy(to, from, static_cast<size_t>(width) * sizeof(T));
      } else {
        for (int64_t i = 0; i < width; ++i) to[i * y_stride] = from[i * x_stride];
      }
    }
  });
}

void index_select(TensorView x, int axis, TensorView index, TensorView y) {
  check_same_type("index_select", x, y);
  if (y.numel() == 0) return;
  const int64_t x_step = x.strides[axis], y_step = y.strides[axis];
  TensorView from = without_axis(x, axis), to = without_axis(y, axis);
  sort_axes({&from, &to});
  merge_axes({&from, &to});
  if (std::abs(y_step) < std::abs(to.strides.back()) || to.shape.back() == 1) {
    return gather(x, axis, along(index, axis, y.shape), y);
  }
  with_bits(y.dtype, [&](auto tag) {
    with_index_type("index_select", index, [&](auto index_tag) {
      select_runs<typename decltype(tag)::type, typename decltype(index_tag)::type>(
          from, x_step, index, to, y_step);
    });
  });
}

void index_add(TensorView x, int axis, TensorView index, TensorView y) {
  scatter_add(x, axis, along(index, axis, x.shape), y);
}

void bounds(TensorView index, TensorView bounds) {
  int64_t* ends = bounds.as<int64_t>();
  const int64_t step = bounds.strides[0];
  // Without indices none is out of range.
  ends[0] = 0;
  ends[step] = -1;
  if (index.numel() == 0) return;
  TensorView end = bounds;
  end.shape = Shape::filled(index.rank(), 1);
  end.strides = Strides::filled(index.rank(), 1);
  reduce_kernels.reduce(Reduction::min, index, {end});
  end.data = ends + step;
  reduce_kernels.reduce(Reduction::max, index, {end});
}

}  // namespace

const IndexKernels index_kernels{
    .gather = gather,
    .scatter_add = scatter_add,
    .index_select = index_select,
    .index_add = index_add,
    .bounds = bounds,
    .sort = sort,
};

}  // namespace binade::backend::cpu
