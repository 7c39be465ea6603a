#include <algorithm>
#include <vector>

#include "binade/backend/cpu/reduce/axes.h"
#include "binade/backend/cpu/reduce/blocks.h"
#include "binade/backend/cpu/rows/strided.h"
#include "binade/base/parallel.h"

// Kernels along one axis in which order matters: the first largest element, the running sum.
namespace binade::backend::cpu {
namespace {

// NaN is larger than everything and smaller than everything, and no better than another NaN.
template <class T>
bool is_better(bool largest, T value, T best) {
  if (value != value) return best == best;
  return largest ? value > best : value < best;
}

// Index of the first best element of one result.
template <class T>
int64_t best_in_turn(bool largest, Source<T>& source, int64_t count) {
  const Reduction op = largest ? Reduction::max : Reduction::min;
  T best{};
  int64_t best_index = -1;
  for_blocks(0, count, [&](int64_t at, int64_t n) {
    const T* values = source.read(at, n);
    const T candidate = reduce_block(op, values, n);
    if (best_index >= 0 && !is_better(largest, candidate, best)) return;
    best = candidate;
    const auto found = std::find_if(values, values + n, [&](T v) { return v == best || v != v; });
    best_index = at + (found - values);
  });
  return best_index;
}

// The same for n results side by side.
template <class T>
void best_side_by_side(bool largest, const TensorView& x, int64_t offset, int64_t stride, int64_t n,
                       int64_t row_stride, int64_t rows, int64_t* indices) {
  T best[block_size], values[block_size];
  read_run(x, offset, stride, n, best);
  std::fill_n(indices, n, 0);
  for (int64_t row = 1; row < rows; ++row) {
    read_run(x, offset + row * row_stride, stride, n, values);
    for (int64_t i = 0; i < n; ++i) {
      if (!is_better(largest, values[i], best[i])) continue;
      best[i] = values[i];
      indices[i] = row;
    }
  }
}

template <class T>
std::vector<int64_t> best_indices(bool largest, const ReductionAxes& axes) {
  const int64_t results = axes.kept.numel(), count = axes.reduced.numel();
  std::vector<int64_t> indices(static_cast<size_t>(results));
  const Layout places(axes.kept);
  if (!axes.side_by_side() || axes.reduced.rank() == 0) {
    parallel_for(results, grain_for(count), [&](int64_t begin, int64_t end) {
      Source<T> source(axes.reduced);
      for (int64_t result = begin; result < end; ++result) {
        source.move_to(places.offset_of(result));
        indices[static_cast<size_t>(result)] = best_in_turn(largest, source, count);
      }
    });
    return indices;
  }
  const int64_t width = places.sizes[places.rank - 1], stride = places.strides[places.rank - 1];
  const int64_t blocks = (width + block_size - 1) / block_size;
  const int64_t work = count * std::min(width, block_size);
  parallel_for(results / width * blocks, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t column = item % blocks * block_size;
      const int64_t first = item / blocks * width + column;
      best_side_by_side<T>(largest, axes.kept, places.offset_of(first), stride,
                           std::min(block_size, width - column), axes.reduced.strides[0], count,
                           indices.data() + first);
    }
  });
  return indices;
}

// One line of a running sum. Sums run in double, which costs no more than the chain of additions
// does anyway.
template <class T, class Sum>
void cumsum_line(const TensorView& x, int64_t from, int64_t step, const TensorView& y, int64_t to,
                 int64_t stride, int64_t count) {
  T values[block_size];
  Sum sum{}, sums[block_size];
  for_blocks(0, count, [&](int64_t at, int64_t n) {
    read_run(x, from + at * step, step, n, values);
    for (int64_t i = 0; i < n; ++i) sums[i] = sum += static_cast<Sum>(values[i]);
    write_run(sums, y, to + at * stride, stride, n);
  });
}

// n lines side by side.
template <class T, class Sum>
void cumsum_lines(const TensorView& x, int64_t from, int64_t x_step, int64_t x_stride,
                  const TensorView& y, int64_t to, int64_t y_step, int64_t y_stride, int64_t count,
                  int64_t n) {
  T values[block_size];
  Sum sums[block_size] = {};
  for (int64_t row = 0; row < count; ++row) {
    read_run(x, from + row * x_step, x_stride, n, values);
    for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<Sum>(values[i]);
    write_run(sums, y, to + row * y_step, y_stride, n);
  }
}

template <class T, class Sum>
void cumsum_as(const ReductionAxes& axes, int64_t count, int64_t x_start, int64_t x_step,
               int64_t y_start, int64_t y_step) {
  const TensorView& x = axes.kept;
  const TensorView& y = axes.kept_y;
  if (!axes.side_by_side()) {
    parallel_for(x.numel(), grain_for(count), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        cumsum_line<T, Sum>(x, x_start + offset_in(x, line), x_step, y,
                            y_start + offset_in(y, line), y_step, count);
      }
    });
    return;
  }
  const int64_t width = x.shape.back(), blocks = (width + block_size - 1) / block_size;
  const int64_t work = count * std::min(width, block_size);
  parallel_for(x.numel() / width * blocks, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t column = item % blocks * block_size;
      const int64_t first = item / blocks * width + column;
      cumsum_lines<T, Sum>(x, x_start + offset_in(x, first), x_step, x.strides.back(), y,
                           y_start + offset_in(y, first), y_step, y.strides.back(), count,
                           std::min(block_size, width - column));
    }
  });
}

}  // namespace

void arg(bool largest, TensorView x, int axis, TensorView y) {
  if (y.numel() == 0) return;
  const ReductionAxes axes(x, y, axis);
  with_exact_type(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<int64_t> indices = best_indices<T>(largest, axes);
    const Layout layout(axes.kept_y);
    layout.for_runs(0, axes.kept_y.numel(),
                    [&](int64_t position, int64_t offset, int64_t stride, int64_t n) {
                      write_run(indices.data() + position, axes.kept_y, offset, stride, n);
                    });
  });
}

void cumsum(TensorView x, int axis, bool reverse, TensorView y) {
  if (y.numel() == 0) return;
  const ReductionAxes axes(x, y, axis);
  const int64_t count = x.shape[axis];
  int64_t x_step = x.strides[axis], y_step = y.strides[axis], x_start = 0, y_start = 0;
  if (reverse) {
    x_start = (count - 1) * x_step;
    y_start = (count - 1) * y_step;
    x_step = -x_step;
    y_step = -y_step;
  }
  with_exact_type(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    cumsum_as<T, Sum>(axes, count, x_start, x_step, y_start, y_step);
  });
}

}  // namespace binade::backend::cpu
