#include "binade/backend/block_rows.h"

#include "binade/backend/meta.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/device.h"
#endif

namespace binade::backend {

const BlockRowKernels& block_row_kernels(Device device) {
  static constexpr BlockRowKernels meta_kernels = meta::idle<BlockRowKernels>();
#ifdef BINADE_CUDA
  if (device.is_cuda()) {
    cuda::activate(device);
    return cuda::block_row_kernels;
  }
#endif
  return device.is_meta() ? meta_kernels : cpu::block_row_kernels;
}

}  // namespace binade::backend
