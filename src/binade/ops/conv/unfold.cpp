#include "binade/ops/conv/unfold.h"

#include <array>

#include "binade/ops/common.h"
#include "binade/ops/create/create.h"

namespace binade {
namespace {

using namespace ops;
using Pair = std::array<int64_t, 2>;

Pair pair_of(const char* op, const char* argument, const std::vector<int64_t>& given,
             int64_t least) {
  // Any image is smaller than this; products of two such numbers do not overflow.
  constexpr int64_t most = int64_t{1} << 24;
  const bool fits = given.size() == 1 || given.size() == 2;
  const Pair pair{fits ? given[0] : 0, fits ? given.back() : 0};
  if (!fits || pair[0] < least || pair[1] < least || pair[0] > most || pair[1] > most)
    fail(op, {.argument = argument,
              .expected = "one or two numbers of at least " + std::to_string(least),
              .found = to_string(Shape(given))});
  return pair;
}

// Where the elements of windows lie in a padded image [n, c, h, w].
struct Windows {
  int64_t n, c;
  Pair image, padded, kernel, stride, padding, dilation, count;

  Windows(const char* op, const Shape& x, const WindowOptions& options)
      : n(x[0]),
        c(x[1]),
        image{x[2], x[3]},
        kernel(pair_of(op, "kernel", options.kernel, 1)),
        stride(pair_of(op, "stride", options.stride, 1)),
        padding(pair_of(op, "padding", options.padding, 0)),
        dilation(pair_of(op, "dilation", options.dilation, 1)) {
    for (size_t i = 0; i < 2; ++i) {
      padded[i] = image[i] + 2 * padding[i];
      const int64_t slack = padded[i] - dilation[i] * (kernel[i] - 1) - 1;
      if (slack < 0)
        fail(op, {.argument = "kernel",
                  .expected = "one that fits into " + to_string(x) + " and its padding",
                  .found = std::to_string(kernel[0]) + " x " + std::to_string(kernel[1])});
      count[i] = slack / stride[i] + 1;
    }
  }

  Shape columns() const { return {n, c * kernel[0] * kernel[1], count[0] * count[1]}; }
  Shape split_columns() const { return {n, c, kernel[0], kernel[1], count[0], count[1]}; }
  Shape padded_image() const { return {n, c, padded[0], padded[1]}; }
  // The image inside its padding.
  Tensor inner(const Tensor& x) const {
    const Strides& s = x.strides();
    return x.strided({n, c, image[0], image[1]}, s,
                     x.offset() + padding[0] * s[2] + padding[1] * s[3]);
  }
};

Tensor columns_of(const Tensor& x, const Windows& w) {
  Tensor in = x;
  const auto& kernels = backend::of(x).elementwise;
  if (w.padded != w.image) {
    in = zeros(w.padded_image(), x.dtype(), x.device());
    kernels.copy(x, w.inner(in));
  }
  const Strides& s = in.strides();
  const Tensor windows = in.strided(w.split_columns(),
                                    {s[0], s[1], w.dilation[0] * s[2], w.dilation[1] * s[3],
                                     w.stride[0] * s[2], w.stride[1] * s[3]},
                                    in.offset());
  const Tensor y = Tensor::empty(w.split_columns(), x.dtype(), x.device());
  kernels.copy(windows, y);
  return viewed(y, w.columns());
}

// In the given type. One tap of the kernel after the other: no two windows write one element at a
// time.
Tensor image_of(const Tensor& columns, const Windows& w, DType dtype) {
  const Tensor sum = zeros(w.padded_image(), accumulation_type(columns), columns.device());
  const Tensor in = viewed(dense(columns), w.split_columns());
  const Strides &from = in.strides(), &to = sum.strides();
  const Shape windows{w.n, w.c, w.count[0], w.count[1]};
  const auto& kernels = backend::of(columns).elementwise;
  for (int64_t i = 0; i < w.kernel[0] && sum.numel() > 0; ++i) {
    for (int64_t j = 0; j < w.kernel[1]; ++j) {
      kernels.axpby(1,
                    in.strided(windows, {from[0], from[1], from[4], from[5]},
                               in.offset() + i * from[2] + j * from[3]),
                    1,
                    sum.strided(windows, {to[0], to[1], w.stride[0] * to[2], w.stride[1] * to[3]},
                                i * w.dilation[0] * to[2] + j * w.dilation[1] * to[3]));
    }
  }
  const Tensor y = Tensor::empty({w.n, w.c, w.image[0], w.image[1]}, dtype, columns.device());
  kernels.copy(w.inner(sum), y);
  return y;
}

}  // namespace

Tensor unfold(const Tensor& x, const WindowOptions& options) {
  require_compute("unfold", "x", x);
  require_rank("unfold", "x", x, 4);
  const Windows windows("unfold", x.shape(), options);
  const Call call(Op::unfold, {x});
  return call.result(columns_of(call[0], windows), [windows](const Tensor& dy, GradSlots dx) {
    dx[0].add(image_of(dy, windows, accumulation_type(dy)));
  });
}

Tensor fold(const Tensor& columns, int64_t height, int64_t width, const WindowOptions& options) {
  require_compute("fold", "columns", columns);
  require_rank("fold", "columns", columns, 3);
  if (height < 1 || width < 1)
    fail("fold", {.argument = "height, width",
                  .expected = "at least 1",
                  .found = std::to_string(height) + ", " + std::to_string(width)});
  const Pair kernel = pair_of("fold", "kernel", options.kernel, 1);
  const int64_t taps = kernel[0] * kernel[1];
  const Windows windows("fold", {columns.size(0), columns.size(1) / taps, height, width}, options);
  require_shape("fold", "columns", columns, windows.columns());
  const Call call(Op::fold, {columns});
  return call.result(
      image_of(call[0], windows, call[0].dtype()),
      [windows](const Tensor& dy, GradSlots dx) { dx[0].add(columns_of(dy, windows)); });
}

}  // namespace binade
