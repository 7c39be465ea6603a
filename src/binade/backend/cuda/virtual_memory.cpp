#include "binade/backend/cuda/virtual_memory.h"

#include <cuda.h>

#include "binade/backend/cuda/device.h"
#include "binade/base/division.h"
#include "binade/base/error.h"

namespace binade::backend::cuda {
namespace {

// A function of the driver, whose library programs do not link: it exists on GPU machines only.
template <class F>
F* driver_function(const char* name) {
  constexpr unsigned version = 12000;  // that of the interface, not of the driver
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  if (status == cudaSuccess && result == cudaDriverEntryPointSuccess)
    return reinterpret_cast<F*>(found);
  cudaGetLastError();
  return nullptr;
}

struct Driver {
  decltype(cuDeviceGetAttribute)* attribute =
      driver_function<decltype(cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  decltype(cuMemAddressReserve)* reserve =
      driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(cuMemCreate)* create = driver_function<decltype(cuMemCreate)>("cuMemCreate");
  decltype(cuMemRelease)* release = driver_function<decltype(cuMemRelease)>("cuMemRelease");
  decltype(cuMemMap)* map = driver_function<decltype(cuMemMap)>("cuMemMap");
  decltype(cuMemUnmap)* unmap = driver_function<decltype(cuMemUnmap)>("cuMemUnmap");
  decltype(cuMemSetAccess)* set_access =
      driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess");

  bool complete() const {
    return attribute != nullptr && reserve != nullptr && create != nullptr && release != nullptr &&
           map != nullptr && unmap != nullptr && set_access != nullptr;
  }
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

CUmemLocation location(Device device) {
  CUmemLocation result{};
  result.type = CU_MEM_LOCATION_TYPE_DEVICE;
  result.id = device.index;
  return result;
}

CUdeviceptr address(void* at) { return reinterpret_cast<CUdeviceptr>(at); }

void check_driver(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  fail(call, {.argument = "CUDA driver",
              .expected = "success",
              .found = "error " + std::to_string(static_cast<int>(status))});
}

}  // namespace

memory::AddressRange reserve_addresses(Device device) {
  activate(device);
  int supported = 0;
  if (!driver().complete() ||
      driver().attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                         device.index) != CUDA_SUCCESS ||
      supported == 0)
    return {};
  const auto bytes = round_up(static_cast<size_t>(properties().memory), virtual_memory_granularity);
  CUdeviceptr base = 0;
  if (driver().reserve(&base, bytes, virtual_memory_granularity, 0, 0) != CUDA_SUCCESS) return {};
  return {reinterpret_cast<void*>(base), bytes};
}

bool commit_memory(void* begin, size_t bytes, Device device) {
  activate(device);
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = location(device);
  CUmemGenericAllocationHandle memory{};
  if (driver().create(&memory, bytes, &kind, 0) != CUDA_SUCCESS) return false;
  const CUresult mapped = driver().map(address(begin), bytes, 0, memory, 0);
  // The mapping keeps the memory from here on.
  check_driver(driver().release(memory), "cuMemRelease");
  if (mapped != CUDA_SUCCESS) return false;
  CUmemAccessDesc access{};
  access.location = location(device);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (driver().set_access(address(begin), bytes, &access, 1) == CUDA_SUCCESS) return true;
  // Otherwise these addresses could never be mapped again.
  check_driver(driver().unmap(address(begin), bytes), "cuMemUnmap");
  return false;
}

void decommit_memory(void* begin, size_t bytes, Device device) {
  activate(device);
  synchronize_all();  // kernels may still use the memory; unmapping does not wait for them
  check_driver(driver().unmap(address(begin), bytes), "cuMemUnmap");
}

}  // namespace binade::backend::cuda
