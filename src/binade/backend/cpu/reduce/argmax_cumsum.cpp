#include <algorithm>
#include <vector>

#include "binade/backend/cpu/reduce/axes.h"
#include "binade/backend/cpu/reduce/blocks.h"
#include "binade/backend/cpu/rows/strided.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"

// Kernels in which the order along an axis matters: the first largest element, the running sum.
namespace binade::backend::cpu {
namespace {

// NaN beats every number, but not another NaN.
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

// `count` results side by side, `stride` apart in memory; each has `rows` elements.
struct Columns {
  const TensorView& x;
  int64_t offset, stride, count;
  int64_t rows, row_stride;
};

template <class T>
void best_side_by_side(bool largest, const Columns& c, int64_t* indices) {
  T best[block_size], values[block_size];
  read_run(c.x, c.offset, c.stride, c.count, best);
  std::fill_n(indices, c.count, 0);
  for (int64_t row = 1; row < c.rows; ++row) {
    read_run(c.x, c.offset + row * c.row_stride, c.stride, c.count, values);
    for (int64_t i = 0; i < c.count; ++i) {
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
  const Layout kept(axes.kept);
  if (!axes.side_by_side() || axes.reduced.rank() == 0) {
    parallel_for(results, grain_for(count), [&](int64_t begin, int64_t end) {
      Source<T> source(axes.reduced);
      for (int64_t result = begin; result < end; ++result) {
        source.move_to(kept.offset_of(result));
        indices[static_cast<size_t>(result)] = best_in_turn(largest, source, count);
      }
    });
    return indices;
  }
  const int64_t width = kept.sizes[kept.rank - 1], stride = kept.strides[kept.rank - 1];
  const int64_t blocks = divide_up(width, block_size);
  const int64_t work = count * std::min(width, block_size);
  parallel_for(results / width * blocks, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t column = item % blocks * block_size;
      const int64_t first = item / blocks * width + column;
      const Columns columns{.x = axes.kept,
                            .offset = kept.offset_of(first),
                            .stride = stride,
                            .count = std::min(block_size, width - column),
                            .rows = count,
                            .row_stride = axes.reduced.strides[0]};
      best_side_by_side<T>(largest, columns, indices.data() + first);
    }
  });
  return indices;
}

// The elements along one axis form a line; `view` has the other axes, one position for each line.
struct CumsumLines {
  const TensorView& view;
  int64_t start, step;  // offset of a line's first element, distance between its elements

  CumsumLines(const TensorView& others, int64_t count, int64_t stride, bool reverse)
      : view(others), start(reverse ? (count - 1) * stride : 0), step(reverse ? -stride : stride) {}

  int64_t first(int64_t line) const { return start + offset_in(view, line); }
};

// One line of a running sum. Sums are double: the chain of additions limits the speed anyway.
template <class T, class Sum>
void cumsum_line(const CumsumLines& x, const CumsumLines& y, int64_t line, int64_t count) {
  const int64_t from = x.first(line), to = y.first(line);
  T values[block_size];
  Sum sum{}, sums[block_size];
  for_blocks(0, count, [&](int64_t at, int64_t n) {
    read_run(x.view, from + at * x.step, x.step, n, values);
    for (int64_t i = 0; i < n; ++i) sums[i] = sum += static_cast<Sum>(values[i]);
    write_run(sums, y.view, to + at * y.step, y.step, n);
  });
}

// n lines side by side, from `line` on.
template <class T, class Sum>
void cumsum_lines(const CumsumLines& x, const CumsumLines& y, int64_t line, int64_t n,
                  int64_t count) {
  const int64_t from = x.first(line), to = y.first(line);
  T values[block_size];
  Sum sums[block_size] = {};
  for (int64_t row = 0; row < count; ++row) {
    read_run(x.view, from + row * x.step, x.view.strides.back(), n, values);
    for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<Sum>(values[i]);
    write_run(sums, y.view, to + row * y.step, y.view.strides.back(), n);
  }
}

template <class T, class Sum>
void cumsum_as(const CumsumLines& x, const CumsumLines& y, int64_t count, bool side_by_side) {
  const int64_t lines = x.view.numel();
  if (!side_by_side) {
    parallel_for(lines, grain_for(count), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) cumsum_line<T, Sum>(x, y, line, count);
    });
    return;
  }
  const int64_t width = x.view.shape.back(), blocks = divide_up(width, block_size);
  const int64_t work = count * std::min(width, block_size);
  parallel_for(lines / width * blocks, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t column = item % blocks * block_size;
      cumsum_lines<T, Sum>(x, y, item / blocks * width + column,
                           std::min(block_size, width - column), count);
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
  const CumsumLines from(axes.kept, count, x.strides[axis], reverse),
      to(axes.kept_y, count, y.strides[axis], reverse);
  with_exact_type(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    cumsum_as<T, Sum>(from, to, count, axes.side_by_side());
  });
}

}  // namespace binade::backend::cpu
