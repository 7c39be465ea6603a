#include "binade/backend/gpu.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/device.h"
#endif

namespace binade::backend {

#ifdef BINADE_CUDA

bool built_with_cuda() { return true; }

const std::vector<Gpu>& gpus() { return cuda::devices(); }

void synchronize(Device device) {
  if (!device.is_cuda()) return;
  cuda::activate(device);
  cuda::synchronize();
}

void synchronize_all(Device device) {
  if (!device.is_cuda()) return;
  cuda::activate(device);
  cuda::synchronize_all();
}

int64_t host_waits() { return cuda::host_waits(); }

#else

bool built_with_cuda() { return false; }

const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> none;
  return none;
}

void synchronize(Device) {}
void synchronize_all(Device) {}

int64_t host_waits() { return 0; }

#endif

}  // namespace binade::backend
