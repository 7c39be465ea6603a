#pragma once

#include <vector>

#include "binade/tensor/tensor.h"

namespace binade {

// Windows over the last two axes: one number for both, or one for each.
struct WindowOptions {
  std::vector<int64_t> kernel = {2};
  std::vector<int64_t> stride = {1};
  std::vector<int64_t> padding = {0};
  std::vector<int64_t> dilation = {1};
};

// The windows of x [n, c, h, w] as columns, [n, c * kernel, windows]: im2col.
Tensor unfold(const Tensor& x, const WindowOptions& options);
// Adds columns [n, c * kernel, windows] to an image [n, c, height, width], its inverse where
// windows do not overlap. Sums run in f32 (f64 for f64).
Tensor fold(const Tensor& columns, int64_t height, int64_t width, const WindowOptions& options);

}  // namespace binade
