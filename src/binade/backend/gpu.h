#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/tensor/device.h"

// The NVIDIA GPUs of this machine, as far as this build can use them.
namespace binade::backend {

struct Gpu {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory = 0;            // bytes
  int64_t shared_per_block = 0;  // bytes a block of threads may ask for

  int capability() const { return 10 * major + minor; }
};

// Empty where there is no GPU, no driver, or no CUDA in this build.
const std::vector<Gpu>& gpus();

// Waits until a device has done all it was given. The CPU always has.
void synchronize(Device device);

// How often this process has had to wait for a GPU so far; a steady training step adds nothing.
int64_t host_waits();

}  // namespace binade::backend
