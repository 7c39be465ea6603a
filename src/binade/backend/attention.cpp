#include "binade/backend/attention.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/attention/hopper.h"
#include "binade/backend/cuda/device.h"
#endif

namespace binade::backend {

bool sums_gradients([[maybe_unused]] const AttentionBackward& args,
                    [[maybe_unused]] Device device) {
#ifdef BINADE_CUDA
  if (device.is_cuda()) {
    cuda::activate(device);
    return cuda::native::sums_gradients_hopper(args);
  }
#endif
  return false;
}

bool attends_documents([[maybe_unused]] DType dtype, [[maybe_unused]] int64_t dim,
                       [[maybe_unused]] Device device) {
#ifdef BINADE_CUDA
  if (device.is_cuda()) {
    cuda::activate(device);
    return cuda::native::attends_documents_hopper(dtype, dim);
  }
#endif
  return false;
}

}  // namespace binade::backend
