#include "binade/backend/cuda/energy.h"

#include <dlfcn.h>

#include <array>
#include <map>
#include <mutex>

#include "binade/backend/cuda/device.h"

namespace binade::backend::cuda {
namespace {

// The part of NVML, the driver's management library, that is needed here. It is opened when first
// used, so that programs start on machines without it.
class Nvml {
 public:
  using Handle = struct nvmlDevice_st*;

  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto init = find<int()>("nvmlInit_v2");
    by_bus_ = find<int(const char*, Handle*)>("nvmlDeviceGetHandleByPciBusId_v2");
    energy_ = find<int(Handle, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
    works_ = init != nullptr && by_bus_ != nullptr && energy_ != nullptr && init() == 0;
  }

  // The device at a PCI address; null if NVML does not know it.
  Handle device(const char* bus) const {
    Handle handle = nullptr;
    return works_ && by_bus_(bus, &handle) == 0 ? handle : nullptr;
  }

  std::optional<double> joules(Handle handle) const {
    unsigned long long millijoules = 0;
    if (energy_(handle, &millijoules) != 0) return std::nullopt;
    return 1e-3 * static_cast<double>(millijoules);
  }

 private:
  template <class F>
  F* find(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }

  void* library_;
  int (*by_bus_)(const char*, Handle*) = nullptr;
  int (*energy_)(Handle, unsigned long long*) = nullptr;
  bool works_ = false;
};

Nvml::Handle handle_of(const Nvml& nvml, Device device) {
  static std::mutex mutex;
  static std::map<int, Nvml::Handle> handles;  // by device
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = handles.try_emplace(device.index, nullptr);
  if (is_new) {
    std::array<char, 32> bus{};
    if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device.index) ==
        cudaSuccess)
      entry->second = nvml.device(bus.data());
  }
  return entry->second;
}

}  // namespace

std::optional<double> energy_joules(Device device) {
  static const Nvml nvml;
  const Nvml::Handle handle = handle_of(nvml, device);
  return handle == nullptr ? std::nullopt : nvml.joules(handle);
}

}  // namespace binade::backend::cuda
