#include "binade/backend/pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

constexpr int64_t no_index = -1;  // of a window that lies in padding altogether

// Tensors are [n, c, d, h, w]; each of the n * c planes of d * h * w elements is pooled by itself.
int64_t planes(const TensorView& x) { return x.shape[0] * x.shape[1]; }
int64_t plane_size(const TensorView& x) { return x.shape[2] * x.shape[3] * x.shape[4]; }

// The part of the input that one output sees along an axis.
struct Span {
  int64_t begin, end;  // clipped to the input
  int64_t whole;       // length with padding, which ends `padding` after the input

  Span(const PoolGeometry& g, const TensorView& x, size_t axis, int64_t output) {
    const int64_t size = x.shape[static_cast<int>(axis) + 2];
    const int64_t start = output * g.stride[axis] - g.padding[axis];
    const int64_t stop = std::min(start + g.kernel[axis], size + g.padding[axis]);
    whole = std::max<int64_t>(stop - start, 0);
    begin = std::clamp<int64_t>(start, 0, size);
    end = std::clamp(stop, begin, size);
  }
  int64_t length() const { return end - begin; }
};

struct Window {
  Span d, h, w;

  int64_t count(bool with_padding) const {
    return with_padding ? d.whole * h.whole * w.whole : d.length() * h.length() * w.length();
  }
};

// Calls visit(output, window) for each output of a plane of y, in order.
template <class Visit>
void for_windows(const PoolGeometry& g, const TensorView& x, const TensorView& y, Visit&& visit) {
  int64_t output = 0;
  for (int64_t i = 0; i < y.shape[2]; ++i) {
    const Span d(g, x, 0, i);
    for (int64_t j = 0; j < y.shape[3]; ++j) {
      const Span h(g, x, 1, j);
      for (int64_t k = 0; k < y.shape[4]; ++k) visit(output++, Window{d, h, Span(g, x, 2, k)});
    }
  }
}

// Calls visit(index) for each input of a window, in order.
template <class Visit>
void for_inputs(const Window& window, const TensorView& x, Visit&& visit) {
  for (int64_t i = window.d.begin; i < window.d.end; ++i) {
    for (int64_t j = window.h.begin; j < window.h.end; ++j) {
      const int64_t row = (i * x.shape[3] + j) * x.shape[4];
      for (int64_t k = window.w.begin; k < window.w.end; ++k) visit(row + k);
    }
  }
}

// Calls body(plane, source, target) for every plane, in parallel: `source` has room for a plane of `from`,
// `target` for one of `to`.
template <class T, class Body>
void for_planes(const TensorView& from, const TensorView& to, Body&& body) {
  parallel_for(planes(to), 1, [&](int64_t begin, int64_t end) {
    std::vector<T> source(static_cast<size_t>(plane_size(from)));
    std::vector<T> target(static_cast<size_t>(plane_size(to)));
    for (int64_t plane = begin; plane < end; ++plane) body(plane, source.data(), target.data());
  });
}

void max_forward(TensorView x, const PoolGeometry& geometry, TensorView y, TensorView index) {
  with_compute_type("max_pool", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_planes<T>(x, y, [&](int64_t plane, T* source, T* target) {
      const T* in = load(x, plane * plane_size(x), plane_size(x), source);
      int64_t* places = index.as<int64_t>() + plane * plane_size(y);
      for_windows(geometry, x, y, [&](int64_t output, const Window& window) {
        T best = -std::numeric_limits<T>::infinity();
        int64_t place = no_index;
        for_inputs(window, x, [&](int64_t i) {
          // A NaN wins over numbers, and nothing over the first NaN.
          if (place == no_index || in[i] > best || (in[i] != in[i] && best == best)) {
            best = in[i];
            place = i;
          }
        });
        target[output] = best;
        places[output] = place;
      });
      store(target, y, plane * plane_size(y), plane_size(y));
    });
  });
}

void max_backward(TensorView dy, TensorView index, TensorView dx) {
  with_compute_type("max_pool", dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_planes<T>(dy, dx, [&](int64_t plane, T* source, T* sums) {
      const int64_t outputs = plane_size(dy);
      const T* gradient = load(dy, plane * outputs, outputs, source);
      const int64_t* places = index.as<int64_t>() + plane * outputs;
      std::fill_n(sums, plane_size(dx), T(0));
      for (int64_t i = 0; i < outputs; ++i) {
        if (places[i] != no_index) sums[places[i]] += gradient[i];
      }
      store(sums, dx, plane * plane_size(dx), plane_size(dx));
    });
  });
}

void average_forward(TensorView x, const PoolGeometry& geometry, TensorView y) {
  with_compute_type("average_pool", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_planes<T>(x, y, [&](int64_t plane, T* source, T* target) {
      const T* in = load(x, plane * plane_size(x), plane_size(x), source);
      for_windows(geometry, x, y, [&](int64_t output, const Window& window) {
        T sum = 0;
        for_inputs(window, x, [&](int64_t i) { sum += in[i]; });
        const int64_t count = window.count(geometry.count_padding);
        target[output] = count > 0 ? sum / static_cast<T>(count) : T(0);
      });
      store(target, y, plane * plane_size(y), plane_size(y));
    });
  });
}

void average_backward(TensorView dy, const PoolGeometry& geometry, TensorView dx) {
  with_compute_type("average_pool", dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_planes<T>(dy, dx, [&](int64_t plane, T* source, T* sums) {
      const T* gradient = load(dy, plane * plane_size(dy), plane_size(dy), source);
      std::fill_n(sums, plane_size(dx), T(0));
      for_windows(geometry, dx, dy, [&](int64_t output, const Window& window) {
        const int64_t count = window.count(geometry.count_padding);
        const T share = count > 0 ? gradient[output] / static_cast<T>(count) : T(0);
        for_inputs(window, dx, [&](int64_t i) { sums[i] += share; });
      });
      store(sums, dx, plane * plane_size(dx), plane_size(dx));
    });
  });
}

}  // namespace

const PoolKernels pool_kernels{.max_forward = max_forward,
                               .max_backward = max_backward,
                               .average_forward = average_forward,
                               .average_backward = average_backward};

}  // namespace binade::backend::cpu
