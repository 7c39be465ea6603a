#include "binade/backend/pool.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "binade/backend/cpu/conv/window_rows.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

constexpr int64_t no_index = -1;  // of a window entirely inside padding

// Tensors are [n, c, d, h, w]; each of the n * c planes of d * h * w elements is pooled by itself.
int64_t planes(const TensorView& x) { return x.shape[0] * x.shape[1]; }
int64_t plane_size(const TensorView& x) { return x.shape[2] * x.shape[3] * x.shape[4]; }

WindowGrid grid_of(const PoolGeometry& g, const TensorView& x, const TensorView& y) {
  return {{x.shape[2], x.shape[3], x.shape[4]},
          g.kernel,
          {y.shape[2], y.shape[3], y.shape[4]},
          g.stride,
          g.padding};
}

// Calls visit(output, input) for every input of every output's window. Taps are the outermost loop:
// the inputs of each output come in order, and the innermost loop runs over independent outputs.
template <class Stride, class Visit>
void for_pairs(const WindowGrid& grid, Stride stride, Visit&& visit) {
  for (int64_t tap = 0; tap < grid.taps(); ++tap) {
    for_window_rows(grid, tap, 0, grid.outputs(), [&](const WindowRun& run) {
      const int64_t first = run.first + run.before;
      for (int64_t i = 0; i < run.length; ++i) visit(first + i, run.input + i * stride);
    });
  }
}

// for_pairs() with common strides as constants, so that the compiler can vectorize.
template <class Visit>
void for_pairs(const WindowGrid& grid, Visit&& visit) {
  switch (grid.stride[2]) {
    case 1:
      return for_pairs(grid, std::integral_constant<int64_t, 1>(), visit);
    case 2:
      return for_pairs(grid, std::integral_constant<int64_t, 2>(), visit);
    default:
      return for_pairs(grid, grid.stride[2], visit);
  }
}

// Calls body(plane, source, target) for every plane, in parallel, with buffers for a plane of
// `from` and one of `to`.
template <class T, class Body>
void for_planes(const TensorView& from, const TensorView& to, Body&& body) {
  parallel_for(planes(to), 1, [&](int64_t begin, int64_t end) {
    std::vector<T> source(static_cast<size_t>(plane_size(from)));
    std::vector<T> target(static_cast<size_t>(plane_size(to)));
    for (int64_t plane = begin; plane < end; ++plane) body(plane, source.data(), target.data());
  });
}

// ---- maximum ----

// Index is as wide as T if a plane's indices fit, so that vectors of both have as many lanes.
template <class Index, class T>
void max_plane(const WindowGrid& grid, const T* in, T* best, Index* index) {
  std::fill_n(best, grid.outputs(), -std::numeric_limits<T>::infinity());
  std::fill_n(index, grid.outputs(), static_cast<Index>(no_index));
  for_pairs(grid, [=](int64_t output, int64_t input) {
    const T value = in[input], old = best[output];
    const Index old_index = index[output];
    // A NaN wins over numbers and nothing over a NaN; -inf replaces "no index".
    const bool wins =
        (!(value <= old) & (old == old)) | (old_index == static_cast<Index>(no_index));
    best[output] = wins ? value : old;
    index[output] = wins ? static_cast<Index>(input) : old_index;
  });
}

template <class Index, class T>
void max_planes(const WindowGrid& grid, const TensorView& x, const TensorView& y,
                const TensorView& index) {
  for_planes<T>(x, y, [&](int64_t plane, T* source, T* best) {
    std::vector<Index> plane_index(static_cast<size_t>(grid.outputs()));
    const T* in = load(x, plane * grid.inputs(), grid.inputs(), source);
    max_plane(grid, in, best, plane_index.data());
    store(best, y, plane * grid.outputs(), grid.outputs());
    std::copy(plane_index.begin(), plane_index.end(), index.as<int64_t>() + plane * grid.outputs());
  });
}

void max_forward(TensorView x, const PoolGeometry& geometry, TensorView y, TensorView index) {
  const WindowGrid grid = grid_of(geometry, x, y);
  with_compute_type("max_pool", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (sizeof(T) == sizeof(int32_t) && grid.inputs() <= std::numeric_limits<int32_t>::max()) {
      max_planes<int32_t, T>(grid, x, y, index);
    } else {
      max_planes<int64_t, T>(grid, x, y, index);
    }
  });
}

void max_backward(TensorView dy, TensorView index, TensorView dx) {
  with_compute_type("max_pool", dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_planes<T>(dy, dx, [&](int64_t plane, T* source, T* sums) {
      const int64_t outputs = plane_size(dy);
      const T* gradient = load(dy, plane * outputs, outputs, source);
      const int64_t* inputs = index.as<int64_t>() + plane * outputs;
      std::fill_n(sums, plane_size(dx), T(0));
      for (int64_t i = 0; i < outputs; ++i) {
        if (inputs[i] != no_index) sums[inputs[i]] += gradient[i];
      }
      store(sums, dx, plane * plane_size(dx), plane_size(dx));
    });
  });
}

// ---- average ----

// The number of elements that a window averages along one axis: those inside the input, or those up
// to the end of its padding.
int64_t window_length(const WindowGrid& grid, size_t axis, int64_t output, bool with_padding) {
  const int64_t size = grid.in[axis], padding = grid.padding[axis];
  const int64_t start = output * grid.stride[axis] - padding, end = start + grid.kernel[axis];
  if (with_padding) return std::min(end, size + padding) - start;
  return std::min(end, size) - std::max<int64_t>(start, 0);
}

// The factor of each output of a plane; 0 if there is nothing to average.
template <class T>
std::vector<T> average_factors(const WindowGrid& grid, bool with_padding) {
  std::vector<T> factors;
  factors.reserve(static_cast<size_t>(grid.outputs()));
  for (int64_t i = 0; i < grid.out[0]; ++i) {
    for (int64_t j = 0; j < grid.out[1]; ++j) {
      for (int64_t k = 0; k < grid.out[2]; ++k) {
        const int64_t d = window_length(grid, 0, i, with_padding),
                      h = window_length(grid, 1, j, with_padding);
        const int64_t w = window_length(grid, 2, k, with_padding);
        factors.push_back(d > 0 && h > 0 && w > 0 ? T(1) / static_cast<T>(d * h * w) : T(0));
      }
    }
  }
  return factors;
}

void average_forward(TensorView x, const PoolGeometry& geometry, TensorView y) {
  const WindowGrid grid = grid_of(geometry, x, y);
  with_compute_type("average_pool", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<T> factors = average_factors<T>(grid, geometry.count_padding);
    for_planes<T>(x, y, [&](int64_t plane, T* source, T* sums) {
      const T* in = load(x, plane * grid.inputs(), grid.inputs(), source);
      std::fill_n(sums, grid.outputs(), T(0));
      for_pairs(grid, [&](int64_t output, int64_t input) { sums[output] += in[input]; });
      for (int64_t i = 0; i < grid.outputs(); ++i) sums[i] *= factors[static_cast<size_t>(i)];
      store(sums, y, plane * grid.outputs(), grid.outputs());
    });
  });
}

void average_backward(TensorView dy, const PoolGeometry& geometry, TensorView dx) {
  const WindowGrid grid = grid_of(geometry, dx, dy);
  with_compute_type("average_pool", dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<T> factors = average_factors<T>(grid, geometry.count_padding);
    for_planes<T>(dy, dx, [&](int64_t plane, T* scaled, T* sums) {
      const T* gradient = load(dy, plane * grid.outputs(), grid.outputs(), scaled);
      for (int64_t i = 0; i < grid.outputs(); ++i)
        scaled[i] = gradient[i] * factors[static_cast<size_t>(i)];
      std::fill_n(sums, grid.inputs(), T(0));
      for_pairs(grid, [&](int64_t output, int64_t input) { sums[input] += scaled[output]; });
      store(sums, dx, plane * grid.inputs(), grid.inputs());
    });
  });
}

}  // namespace

const PoolKernels pool_kernels{.max_forward = max_forward,
                               .max_backward = max_backward,
                               .average_forward = average_forward,
                               .average_backward = average_backward};

}  // namespace binade::backend::cpu
