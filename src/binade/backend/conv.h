#pragma once

#include <array>
#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// One- and two-dimensional convolutions come as three-dimensional ones with sizes of 1.
struct ConvGeometry {
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> padding{0, 0, 0};
  std::array<int64_t, 3> dilation{1, 1, 1};
  int64_t groups = 1;
};

// x [n, c, d, h, w], weight [o, c / groups, kd, kh, kw], y [n, o, d', h', w']; dense.
// A transposed convolution's forward is backward_input and the reverse.
struct ConvKernels {
  void (*forward)(TensorView x, TensorView weight, TensorView bias, const ConvGeometry&,
                  TensorView y);
  void (*backward_input)(TensorView dy, TensorView weight, TensorView bias, const ConvGeometry&,
                         TensorView dx, bool accumulate);
  void (*backward_weight)(TensorView x, TensorView dy, const ConvGeometry&, TensorView dweight,
                          bool accumulate);
};

}  // namespace binade::backend
