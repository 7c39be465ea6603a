#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// Images x [n, c, h, w] in another size, without aligned corners (PyTorch's default).
Tensor upsample_nearest2d(const Tensor& x, int64_t height, int64_t width);
Tensor upsample_bilinear2d(const Tensor& x, int64_t height, int64_t width);

// x [n, c, h, w] sampled at grid [n, h', w', 2], whose (x, y) run from -1 to 1 across the image;
// bilinear, zero outside, corners not aligned. Differentiable in both.
Tensor grid_sampler(const Tensor& x, const Tensor& grid);

}  // namespace binade
