#pragma once

#include "binade/backend/conv.h"

// A convolution of stride 2 over few channels, such as the first one over images, as a convolution
// of stride 1 over four times as many: each 2 x 2 block of positions becomes one position with the
// channels of all four. Tensor cores multiply along channels, and three of them leave most of a
// tile empty.
namespace binade::backend::cuda {

// How blocks of x line up with those of the kernel. Channels are ((row in block, column in block),
// channel of x), followed by zeros.
struct SpaceToDepth {
  static constexpr int64_t channels = 16;

  // Whether a convolution of 16-bit, channels-last tensors is run this way.
  static bool applies(const TensorView& x, const ConvGeometry& geometry);

  // y is the result of the convolution.
  SpaceToDepth(const TensorView& x, const TensorView& weight, const TensorView& y,
               const ConvGeometry& geometry);

  Shape x_shape;       // [n, channels, 1, h, w] of the blocks that y needs, padding included
  Shape weight_shape;  // [o, channels, 1, kh, kw]
  // Of the two spatial axes: rows of the kernel's first block that are empty, and blocks of padding
  // before x.
  int64_t shift[2], before[2];

  // All channels-last but `weight` and `dweight`, which are row-major.
  void fold_input(const TensorView& x, const TensorView& blocks) const;
  void fold_weight(const TensorView& weight, const TensorView& blocks) const;
  // dweight = the gradient of the original weight, or += it.
  void unfold_weight_gradient(const TensorView& blocks, const TensorView& dweight,
                              bool accumulate) const;
};

}  // namespace binade::backend::cuda
