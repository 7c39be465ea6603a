#pragma once

#include <cuda_runtime.h>

namespace binade::backend::cuda {

// An element of a rotated pair: u times cosine less v times sine, or u times sine plus v times
// cosine. Kernels that rotate agree in every bit by this order of operations.
template <class C>
__device__ inline C rotated_element(C u, C of_u, C v, C of_v) {
  return fma(u, of_u, v * of_v);
}

}  // namespace binade::backend::cuda
