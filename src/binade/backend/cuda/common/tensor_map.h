#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "binade/backend/cuda/device.h"
#include "binade/tensor/tensor.h"

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

// Whether the active device runs kernels for compute capability 9.0 alone, the build has them
// (sm_90a; else they are empty), and the driver can describe tensors to them.
inline bool has_hopper_kernels() {
#ifdef BINADE_SM90A
  return properties().capability() == 90 && tensor_map_encoder() != nullptr;
#else
  return false;
#endif
}

// Describes a 16-bit tensor of at least two axes, the last one contiguous, to bulk copies: boxes of
// `rows` rows and 64 columns, swizzled as operands of matmuls are. False if the driver refuses.
inline bool encode_boxes(CUtensorMap& map, const TensorView& x, int rows) {
  constexpr int most_axes = 5;
  const int axes = x.rank();
  cuuint64_t sizes[most_axes], strides[most_axes];
  cuuint32_t box[most_axes], steps[most_axes];
  for (int i = 0; i < axes; ++i) {  // the last axis first
    sizes[i] = static_cast<cuuint64_t>(x.shape[axes - 1 - i]);
    strides[i] = static_cast<cuuint64_t>(x.strides[axes - 1 - i]) * 2;
    box[i] = steps[i] = 1;
  }
  box[0] = 64;
  box[1] = static_cast<cuuint32_t>(rows);
  const auto type =
      x.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  return tensor_map_encoder()(&map, type, static_cast<cuuint32_t>(axes), x.data, sizes, strides + 1,
                              box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace binade::backend::cuda
