#pragma once

#include <cuda_runtime.h>

namespace binade::backend::cuda {

// An element of a pair after its rotation. `signed_sine` is negative for the pair's first element,
// and once more if the rotation is an inverse.
template <class C>
__device__ inline C rotated_element(C own, C other, C cosine, C signed_sine) {
  return fma(own, cosine, other * signed_sine);
}

}  // namespace binade::backend::cuda
