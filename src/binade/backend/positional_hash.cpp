#include "binade/backend/positional_hash.h"

#include "binade/backend/meta.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/device.h"
#endif

namespace binade::backend {

const HashKernels& hash_kernels(Device device) {
  static constexpr HashKernels meta_kernels = meta::idle<HashKernels>();
#ifdef BINADE_CUDA
  if (device.is_cuda()) {
    cuda::activate(device);
    return cuda::hash_kernels;
  }
#endif
  return device.is_meta() ? meta_kernels : cpu::hash_kernels;
}

}  // namespace binade::backend
