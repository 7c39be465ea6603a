#include "binade/backend/softmax.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/norm/softmax_rows.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

// Calls body(row, the row's offset, the thread's scratch rows) for all rows of x.
template <class T, int scratch_rows, class F>
void for_each_row(const TensorView& x, F body) {
  const int64_t width = x.shape.back();
  const int64_t rows = width == 0 ? 0 : x.numel() / width;
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, width));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    std::vector<T> scratch(static_cast<size_t>(scratch_rows * width));
    for (int64_t row = begin; row < end; ++row) body(row, row * width, scratch.data());
  });
}

template <class T>
void forward_as(SoftmaxKind kind, const TensorView& x, const TensorView& y) {
  const SoftmaxRows<T>& math = softmax_rows<T>();
  const int64_t width = x.shape.back();
  for_each_row<T, 1>(x, [&](int64_t, int64_t at, T* scratch) {
    const T* in = load(x, at, width, scratch);
    T* out = row_target(y, at, scratch);
    const T max = math.max(in, width);
    if (kind == SoftmaxKind::log) {
      // Subtracts max first: adding log_sum to a large max would round it.
      const T log_sum = std::log(math.exp_sum(in, max, width));
      for (int64_t i = 0; i < width; ++i) out[i] = (in[i] - max) - log_sum;
    } else {
      math.exp_scaled(in, max, T{1}, width, out);
      const T scale = T{1} / math.sum(out, width);
      for (int64_t i = 0; i < width; ++i) out[i] *= scale;
    }
    store(out, y, at, width);
  });
}

void forward(SoftmaxKind kind, TensorView x, TensorView y) {
  with_compute_type("softmax", x.dtype,
                    [&](auto tag) { forward_as<typename decltype(tag)::type>(kind, x, y); });
}

template <class T>
void backward_as(SoftmaxKind kind, const TensorView& dy, const TensorView& y, const Target& dx) {
  const SoftmaxRows<T>& math = softmax_rows<T>();
  const int64_t width = y.shape.back();
  for_each_row<T, 3>(y, [&](int64_t, int64_t at, T* scratch) {
    const T* g = load(dy, at, width, scratch);
    const T* out = load(y, at, width, scratch + width);
    T* result = row_target(dx, at, scratch + 2 * width);
    if (kind == SoftmaxKind::log) {
      math.log_gradient(g, out, math.sum(g, width), width, result);
    } else {
      math.gradient(g, out, math.dot(g, out, width), width, result);
    }
    store(result, dx, at, width);
  });
}

void backward(SoftmaxKind kind, TensorView dy, TensorView y, Target dx) {
  with_compute_type("softmax_backward", y.dtype,
                    [&](auto tag) { backward_as<typename decltype(tag)::type>(kind, dy, y, dx); });
}

template <class T>
void logsumexp_as(const TensorView& x, const TensorView& y) {
  const SoftmaxRows<T>& math = softmax_rows<T>();
  const int64_t width = x.shape.back();
  for_each_row<T, 1>(x, [&](int64_t row, int64_t at, T* scratch) {
    const T* in = load(x, at, width, scratch);
    const T max = math.max(in, width);
    // An infinite maximum is the result; subtracting it from itself would be NaN.
    const T shift = std::isfinite(max) ? max : T{0};
    const T result = shift + std::log(math.exp_sum(in, shift, width));
    store(&result, y, row, 1);
  });
}

void logsumexp(TensorView x, TensorView y) {
  with_compute_type("logsumexp", x.dtype,
                    [&](auto tag) { logsumexp_as<typename decltype(tag)::type>(x, y); });
}

}  // namespace

const SoftmaxKernels softmax_kernels{
    .forward = forward, .backward = backward, .logsumexp = logsumexp};

}  // namespace binade::backend::cpu
