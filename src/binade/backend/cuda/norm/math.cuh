#pragma once

#include <cmath>

namespace binade::backend::cuda {

// One element of a norm's result. The last product and sum round once, wherever this is compiled.
template <class C>
__device__ inline C normed_value(C x, C mean, C rstd, C weight, C bias) {
  return std::fma((x - mean) * rstd, weight, bias);
}

}  // namespace binade::backend::cuda
