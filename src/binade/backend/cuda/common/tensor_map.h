#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

namespace binade::backend::cuda {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's cuTensorMapEncodeTiled, or null: found at run time, as programs also start without a
// driver.
inline EncodeTiled tensor_map_encoder() {
  static const EncodeTiled function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                                12000, cudaEnableDefault, &result);
    return status == cudaSuccess ? reinterpret_cast<EncodeTiled>(found) : nullptr;
  }();
  return function;
}

}  // namespace binade::backend::cuda
