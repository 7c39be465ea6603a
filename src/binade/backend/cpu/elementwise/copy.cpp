#include "binade/backend/cpu/elementwise/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "binade/backend/cpu/rows/strided.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

void copy_converting(const TensorView& x, const TensorView& y) {
  with_exact_type(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(y.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
      Source<T> source(x);
      const Layout layout(y);
      for_blocks(begin, end, [&](int64_t at, int64_t n) {
        const T* values = source.read(at, n);
        layout.for_runs(at, n,
                        [&](int64_t position, int64_t offset, int64_t stride, int64_t count) {
                          write_run(values + position, y, offset, stride, count);
                        });
      });
    });
  });
}

// Copies between tensors of one type whose axes are merged, in runs along the last axis.
template <class T>
void copy_runs(const TensorView& x, const TensorView& y) {
  const int64_t width = y.shape.back(), step = x.strides.back(), stride = y.strides.back();
  parallel_for(y.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      const int64_t n = std::min(width - at % width, end - at);
      const T* from = x.as<T>() + offset_in(x, at);
      T* to = y.as<T>() + offset_in(y, at);
      if (step == 1 && stride == 1) {
        std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
      } else {
        for (int64_t i = 0; i < n; ++i) to[i * stride] = from[i * step];
      }
      at += n;
    }
  });
}

// A view as a batch of matrices: the last axis holds the columns, `row` is another axis.
struct Matrices {
  Matrices(const TensorView& view, int row)
      : rows(view.shape[row]),
        columns(view.shape.back()),
        row_stride(view.strides[row]),
        column_stride(view.strides.back()),
        batch(without_axis(without_axis(view, view.rank() - 1), row)) {}

  int64_t rows, columns, row_stride, column_stride;
  TensorView batch;
};

// x is contiguous along another axis than y: square tiles keep the cache lines of both.
constexpr int64_t tile = 32;

// The distances between a tile's elements in x and y.
struct TileStrides {
  int64_t x_row, x_column, y_row, y_column;
};

template <class T>
void copy_tile(const T* x, T* y, TileStrides strides, int64_t rows, int64_t columns) {
  const auto [x_row, x_column, y_row, y_column] = strides;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) y[r * y_row + c * y_column] = x[r * x_row + c * x_column];
  }
}

// Calls body(x offset, y offset, rows, columns) for every tile of every matrix, on all threads.
template <class Body>
void for_tiles(const Matrices& x, const Matrices& y, Body&& body) {
  const int64_t down = divide_up(y.rows, tile), across = divide_up(y.columns, tile);
  const int64_t tiles = y.batch.numel() * down * across;
  parallel_for(tiles, grain_for(tile * tile), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t matrix = i / (down * across);
      const int64_t row = i / across % down * tile, column = i % across * tile;
      body(offset_in(x.batch, matrix) + row * x.row_stride + column * x.column_stride,
           offset_in(y.batch, matrix) + row * y.row_stride + column * y.column_stride,
           std::min(tile, y.rows - row), std::min(tile, y.columns - column));
    }
  });
}

// x is contiguous along `row`, y along the last axis.
void copy_transposed(const TensorView& x, const TensorView& y, int row) {
  const Matrices from(x, row), to(y, row);
  if (x.dtype == y.dtype) {
    return with_bits(y.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_tiles(from, to, [&](int64_t source, int64_t target, int64_t rows, int64_t columns) {
        copy_tile(x.as<T>() + source, y.as<T>() + target,
                  {.x_row = from.row_stride,
                   .x_column = from.column_stride,
                   .y_row = to.row_stride,
                   .y_column = to.column_stride},
                  rows, columns);
      });
    });
  }
  with_exact_type(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_tiles(from, to, [&](int64_t source, int64_t target, int64_t rows, int64_t columns) {
      T columns_of_x[tile][tile], line[tile];
      for (int64_t c = 0; c < columns; ++c) {
        read_run(x, source + c * from.column_stride, from.row_stride, rows, columns_of_x[c]);
      }
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) line[c] = columns_of_x[c][r];
        write_run(line, y, target + r * to.row_stride, to.column_stride, columns);
      }
    });
  });
}

// The axis along which x is contiguous if it is not y's last one and both are long enough for tiles
// to pay off; else -1.
int transposed_axis(const TensorView& x, const TensorView& y) {
  const int last = y.rank() - 1;
  if (last < 1 || x.shape[last] < 4 || std::abs(x.strides[last]) <= 1) return -1;
  for (int axis = 0; axis < last; ++axis) {
    if (x.strides[axis] == 1 && x.shape[axis] >= 4) return axis;
  }
  return -1;
}

}  // namespace

void copy(TensorView x, TensorView y) {
  if (y.numel() == 0) return;
  if (x.data == y.data && x.dtype == y.dtype && x.strides == y.strides) return;
  sort_axes({&x, &y});
  merge_axes({&x, &y});
  if (const int axis = transposed_axis(x, y); axis >= 0) return copy_transposed(x, y, axis);
  if (x.dtype != y.dtype) return copy_converting(x, y);
  with_bits(y.dtype, [&](auto tag) { copy_runs<typename decltype(tag)::type>(x, y); });
}

}  // namespace binade::backend::cpu
