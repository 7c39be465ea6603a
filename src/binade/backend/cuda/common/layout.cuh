#pragma once

#include <initializer_list>

#include "binade/base/host_device.h"
#include "binade/tensor/tensor.h"

// Views of any strides in device code.
namespace binade::backend::cuda {

// Sizes and strides of a view, by value as a kernel argument.
struct Layout {
  int rank = 0;
  int64_t sizes[max_rank] = {};
  int64_t strides[max_rank] = {};

  Layout() = default;
  explicit Layout(const TensorView& view) : rank(view.rank()) {
    for (int i = 0; i < rank; ++i) {
      sizes[i] = view.shape[i];
      strides[i] = view.strides[i];
    }
  }

  // Memory offset of element `index` in row-major order.
  BINADE_HD int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      const int64_t rest = index / sizes[axis];
      at += (index - rest * sizes[axis]) * strides[axis];
      index = rest;
    }
    return rank > 0 ? at + index * strides[0] : at;
  }
};

// Permutes the axes of all views (of one shape) alike so that the strides of the last one descend,
// drops axes of size 1 and merges neighboring axes that are contiguous in all views. Elementwise
// kernels may run in any order; that of the output's memory is the fastest.
void simplify(std::initializer_list<TensorView*> views);

}  // namespace binade::backend::cuda
