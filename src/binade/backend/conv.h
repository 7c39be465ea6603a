#pragma once

#include <array>
#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Kernels have three spatial axes; convolutions with fewer pass sizes of 1 for the others.
struct ConvGeometry {
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> padding{0, 0, 0};
  std::array<int64_t, 3> dilation{1, 1, 1};
  int64_t groups = 1;
};

// x, dx [n, c, d, h, w]; weight, dweight [o, c / groups, kd, kh, kw]; y, dy [n, o, d', h', w'];
// bias, optional, one element per channel of the result. All are dense; x, dx, y and dy may be
// channels-last, both of a call alike, if Backend::channels_last.
struct ConvForward {
  TensorView x = {}, weight = {}, bias = {};
  ConvGeometry geometry = {};
  TensorView y = {};
};

struct ConvBackwardInput {
  TensorView dy = {}, weight = {}, bias = {};
  ConvGeometry geometry = {};
  TensorView dx = {};
  bool accumulate = false;  // add to dx
};

struct ConvBackwardWeight {
  TensorView x = {}, dy = {};
  ConvGeometry geometry = {};
  TensorView dweight = {};
  bool accumulate = false;  // add to dweight
};

// A transposed convolution's forward is backward_input and the reverse.
struct ConvKernels {
  void (*forward)(const ConvForward&);
  void (*backward_input)(const ConvBackwardInput&);
  void (*backward_weight)(const ConvBackwardWeight&);
};

}  // namespace binade::backend
