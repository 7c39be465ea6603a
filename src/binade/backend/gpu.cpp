#include "binade/backend/gpu.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/energy.h"
#endif

namespace binade::backend {

#ifdef BINADE_CUDA

bool built_with_cuda() { return true; }

const std::vector<Gpu>& gpus() { return cuda::devices(); }

int64_t free_memory(Device device) { return cuda::free_memory(device); }

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

std::optional<double> energy_joules(Device device) {
  return device.is_cuda() ? cuda::energy_joules(device) : std::nullopt;
}

#else

bool built_with_cuda() { return false; }

const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> none;
  return none;
}

int64_t free_memory(Device) { return 0; }

void synchronize(Device) {}
void synchronize_all(Device) {}

int64_t host_waits() { return 0; }

std::optional<double> energy_joules(Device) { return std::nullopt; }

#endif

}  // namespace binade::backend
