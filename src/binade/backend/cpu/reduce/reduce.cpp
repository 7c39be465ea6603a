#include "binade/backend/reduce.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/reduce/axes.h"
#include "binade/backend/cpu/reduce/blocks.h"
#include "binade/backend/cpu/rows/strided.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"

// Elements are combined in chunks of fixed size, the chunks' results in chunks again, until one is
// left: threads share the chunks, and errors grow with the logarithm of the count.
namespace binade::backend::cpu {
namespace {

// Rows per partial result.
constexpr int64_t row_chunk = 128;

Binary join_of(Reduction op) {
  switch (op) {
    case Reduction::prod:
      return Binary::mul;
    case Reduction::max:
      return Binary::maximum;
    case Reduction::min:
      return Binary::minimum;
    default:
      return Binary::add;
  }
}

// One result at a time. reader() makes each thread's own reader; read(result, start, n) returns
// elements of a result. Returns [results, chunks] after one level of combining.
template <class T, class Reader>
std::vector<T> join_runs(Reduction op, int64_t results, int64_t count, Reader&& reader) {
  const int64_t chunks = divide_up(count, block_size);
  std::vector<T> joined(static_cast<size_t>(results * chunks));
  parallel_for(
      results * chunks, grain_for(std::min(count, block_size)), [&](int64_t begin, int64_t end) {
        auto read = reader();
        for (int64_t item = begin; item < end; ++item) {
          const int64_t start = item % chunks * block_size;
          const int64_t n = std::min(block_size, count - start);
          joined[static_cast<size_t>(item)] = reduce_block(op, read(item / chunks, start, n), n);
        }
      });
  return joined;
}

template <class T>
std::vector<T> join_partial_runs(Reduction op, std::vector<T> partial, int64_t results) {
  while (static_cast<int64_t>(partial.size()) > results) {
    const int64_t count = static_cast<int64_t>(partial.size()) / results;
    partial = join_runs<T>(op, results, count, [&] {
      return [&](int64_t result, int64_t start, int64_t) {
        return partial.data() + result * count + start;
      };
    });
  }
  return partial;
}

// Results side by side: read(matrix, row, column, n) returns a part of a row, and rows are combined
// element by element. Returns [outer, chunks, width] after one level of combining.
template <class T, class Reader>
std::vector<T> join_rows(Reduction op, int64_t outer, int64_t rows, int64_t width,
                         Reader&& reader) {
  const int64_t chunks = divide_up(rows, row_chunk), blocks = divide_up(width, block_size);
  std::vector<T> joined(static_cast<size_t>(outer * chunks * width));
  const int64_t work = std::min(rows, row_chunk) * std::min(width, block_size);
  parallel_for(outer * chunks * blocks, grain_for(work), [&](int64_t begin, int64_t end) {
    auto read = reader();
    for (int64_t item = begin; item < end; ++item) {
      const int64_t matrix = item / blocks / chunks, chunk = item / blocks % chunks;
      const int64_t column = item % blocks * block_size, n = std::min(block_size, width - column);
      const int64_t first = chunk * row_chunk, last = std::min(rows, first + row_chunk);
      T* const sum = joined.data() + (matrix * chunks + chunk) * width + column;
      std::copy_n(read(matrix, first, column, n), n, sum);
      for (int64_t row = first + 1; row < last; ++row) {
        binary_block(join_of(op), sum, read(matrix, row, column, n), sum, n);
      }
    }
  });
  return joined;
}

template <class T>
std::vector<T> join_partial_rows(Reduction op, std::vector<T> partial, int64_t outer,
                                 int64_t width) {
  while (static_cast<int64_t>(partial.size()) > outer * width) {
    const int64_t rows = static_cast<int64_t>(partial.size()) / (outer * width);
    partial = join_rows<T>(op, outer, rows, width, [&] {
      return [&](int64_t matrix, int64_t row, int64_t column, int64_t) {
        return partial.data() + (matrix * rows + row) * width + column;
      };
    });
  }
  return partial;
}

// Maps elements before they are combined: to themselves, or for the variance to the square of their
// distance from the result's mean.
template <class T>
struct Centers {
  const T* values = nullptr;  // one per result

  const T* apply_one(int64_t result, const T* x, T* scratch, int64_t n) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (values == nullptr) return x;
      squared_deviations(x, values[result], scratch, n);
      return scratch;
    }
    return x;
  }
  const T* apply_row(int64_t first_result, const T* x, T* scratch, int64_t n) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (values == nullptr) return x;
      squared_deviations(x, values + first_result, scratch, n);
      return scratch;
    }
    return x;
  }
};

template <class T>
std::vector<T> results_in_turn(Reduction op, const ReductionAxes& axes, Centers<T> centers) {
  const int64_t results = axes.kept.numel();
  const Layout kept(axes.kept);
  auto partial = join_runs<T>(op, results, axes.reduced.numel(), [&] {
    return [&, source = Source<T>(axes.reduced), scratch = std::vector<T>(block_size)](
               int64_t result, int64_t start, int64_t n) mutable {
      source.move_to(kept.offset_of(result));
      return centers.apply_one(result, source.read(start, n), scratch.data(), n);
    };
  });
  return join_partial_runs(op, std::move(partial), results);
}

template <class T>
std::vector<T> results_side_by_side(Reduction op, const ReductionAxes& axes, Centers<T> centers) {
  const Layout kept(axes.kept), rows(axes.reduced);
  const int64_t width = kept.sizes[kept.rank - 1], stride = kept.strides[kept.rank - 1];
  const int64_t outer = axes.kept.numel() / width;
  auto partial = join_rows<T>(op, outer, axes.reduced.numel(), width, [&] {
    return [&, scratch = std::vector<T>(block_size)](int64_t matrix, int64_t row, int64_t column,
                                                     int64_t n) mutable -> const T* {
      const int64_t first = matrix * width + column;
      const int64_t offset = kept.offset_of(first) + rows.offset_of(row);
      const T* values = load_run(axes.kept, offset, stride, n, scratch.data());
      return centers.apply_row(first, values, scratch.data(), n);
    };
  });
  return join_partial_rows(op, std::move(partial), outer, width);
}

template <class T>
std::vector<T> results_of(Reduction op, const ReductionAxes& axes, Centers<T> centers = {}) {
  if (axes.reduced.numel() == 0) {
    return std::vector<T>(static_cast<size_t>(axes.kept.numel()),
                          reduce_block(op, static_cast<const T*>(nullptr), 0));
  }
  return axes.side_by_side() ? results_side_by_side(op, axes, centers)
                             : results_in_turn(op, axes, centers);
}

// y = results, or y += results.
template <class T>
void write_results(const std::vector<T>& results, const Target& target) {
  const TensorView& y = target.view;
  parallel_for(y.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    Source<T> present(y);
    Sink<T> sink(y);
    for_blocks(begin, end, [&](int64_t at, int64_t n) {
      T* out = sink.target(at, n);
      if (target.accumulate) {
        binary_block(Binary::add, present.read(at, n), results.data() + at, out, n);
      } else {
        std::copy_n(results.data() + at, n, out);
      }
      sink.commit(at, n);
    });
  });
}

template <class T>
void divide(std::vector<T>& results, double divisor) {
  for (T& result : results) result = static_cast<T>(result / static_cast<T>(divisor));
}

// double for f64, and for integers whose result may have a fraction.
template <class F>
void with_accumulator(Reduction op, const TensorView& x, const TensorView& y, F&& f) {
  const bool integer = !is_floating(x.dtype);
  if (integer && !is_floating(y.dtype) && op != Reduction::mean) return f(TypeTag<int64_t>{});
  if (integer || x.dtype == DType::f64) return f(TypeTag<double>{});
  f(TypeTag<float>{});
}

void reduce(Reduction op, TensorView x, Target y) {
  if (y.view.numel() == 0) return;
  const ReductionAxes axes(x, y.view);
  with_accumulator(op, x, y.view, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> results = results_of<T>(op, axes);
    if (op == Reduction::mean) divide(results, static_cast<double>(axes.reduced.numel()));
    write_results(results, {axes.kept_y, y.accumulate});
  });
}

void variance(TensorView x, double correction, TensorView y, TensorView mean) {
  if (y.numel() == 0) return;
  const ReductionAxes axes(x, y);
  with_accumulator(Reduction::mean, x, y, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      const double count = static_cast<double>(axes.reduced.numel());
      std::vector<T> means = results_of<T>(Reduction::sum, axes);
      divide(means, count);
      std::vector<T> squares = results_of<T>(Reduction::sum, axes, {means.data()});
      divide(squares, std::max(0.0, count - correction));
      write_results(squares, {axes.kept_y});
      if (mean.present) write_results(means, {ReductionAxes(x, mean).kept_y});
    }
  });
}

}  // namespace

const ReduceKernels reduce_kernels{
    .reduce = reduce,
    .arg = arg,
    .variance = variance,
    .cumsum = cumsum,
};

}  // namespace binade::backend::cpu
