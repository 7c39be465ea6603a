#pragma once

#include <array>
#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// One- and two-dimensional pools come as three-dimensional ones with sizes of 1.
struct PoolGeometry {
  std::array<int64_t, 3> kernel{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> padding{0, 0, 0};
  bool count_padding = true;  // whether an average divides by the whole window at the border
};

struct PoolKernels {
  // index (i64, y's shape) receives where in its d*h*w plane each maximum was.
  void (*max_forward)(TensorView x, const PoolGeometry&, TensorView y, TensorView index);
  void (*max_backward)(TensorView dy, TensorView index, TensorView dx);
  void (*average_forward)(TensorView x, const PoolGeometry&, TensorView y);
  void (*average_backward)(TensorView dy, const PoolGeometry&, TensorView dx);
};

}  // namespace binade::backend
