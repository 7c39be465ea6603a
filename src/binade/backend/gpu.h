#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "binade/tensor/device.h"

// The NVIDIA GPUs this build can use.
namespace binade::backend {

struct Gpu {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory = 0;            // bytes
  int64_t shared_per_block = 0;  // bytes of shared memory a thread block may request

  int capability() const { return 10 * major + minor; }
};

// Whether this build has the CUDA backend.
bool built_with_cuda();

// Empty if there is no GPU, no driver, or no CUDA in this build.
const std::vector<Gpu>& gpus();

// Bytes of a GPU's memory that no process uses.
int64_t free_memory(Device device);

// Waits until a device has finished all submitted work. Returns at once for the CPU.
void synchronize(Device device);
// Waits for the work of other libraries in this process, too.
void synchronize_all(Device device);

// Number of times this process has waited for a GPU. A steady training step adds none.
int64_t host_waits();

// Energy that a device has used since its driver was loaded, all processes together. None for the
// CPU, and if NVML or its counter is missing.
std::optional<double> energy_joules(Device device);

}  // namespace binade::backend
