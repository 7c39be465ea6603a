#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// An output that a kernel overwrites or adds its result to. Keeping the flag beside the view lets
// each gradient of a backward say for itself whether its buffer already holds one.
struct Target {
  TensorView view = {};     // absent: the result is not needed
  bool accumulate = false;  // add to the elements rather than overwrite them

  bool present() const { return view.present; }
};

}  // namespace binade::backend
