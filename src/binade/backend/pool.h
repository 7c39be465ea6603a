#pragma once

#include <array>
#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Kernels have three spatial axes; pools with fewer pass sizes of 1 for the others.
struct PoolGeometry {
  std::array<int64_t, 3> kernel{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> padding{0, 0, 0};
  bool count_padding = true;  // averages divide by the window's size including padding
};

struct PoolKernels {
  // index (i64, y's shape) receives the position of each maximum in its d * h * w plane, or -1 for
  // a window entirely inside padding.
  void (*max_forward)(TensorView x, const PoolGeometry&, TensorView y, TensorView index);
  void (*max_backward)(TensorView dy, TensorView index, TensorView dx);
  void (*average_forward)(TensorView x, const PoolGeometry&, TensorView y);
  void (*average_backward)(TensorView dy, const PoolGeometry&, TensorView dx);
  // For channels-last tensors, on backends with Backend::channels_last. `choice` (u8, y's shape
  // and strides) receives the position of each maximum in its window, which has at most 255
  // elements, or 255 for a window entirely inside padding.
  void (*channels_last_max_forward)(TensorView x, const PoolGeometry&, TensorView y,
                                    TensorView choice) = nullptr;
  void (*channels_last_max_backward)(TensorView dy, TensorView choice, const PoolGeometry&,
                                     TensorView dx) = nullptr;
};

}  // namespace binade::backend
