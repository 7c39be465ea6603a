#include "binade/backend/cuda/common/tensor_map.h"

#include <cuda_runtime.h>

#include "binade/backend/cuda/device.h"

namespace binade::backend::cuda {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's cuTensorMapEncodeTiled, or null: found at run time, as programs also start without a
// driver.
EncodeTiled tensor_map_encoder() {
  static const EncodeTiled function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                                12000, cudaEnableDefault, &result);
    return status == cudaSuccess ? reinterpret_cast<EncodeTiled>(found) : nullptr;
  }();
  return function;
}

// BINADE_SM90A is defined for these sources alone, so that it must not be asked in a header.
#ifdef BINADE_SM90A
constexpr bool built_for_hopper = true;
#else
constexpr bool built_for_hopper = false;
#endif

}  // namespace

bool has_hopper_kernels() {
  return built_for_hopper && properties().capability() == 90 && tensor_map_encoder() != nullptr;
}

bool encode_boxes(CUtensorMap& map, const TensorView& x, int rows) {
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
