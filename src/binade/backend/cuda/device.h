#pragma once

#include <cuda_runtime.h>

#include <string>
#include <string_view>
#include <vector>

#include "binade/tensor/device.h"

// The GPUs of this machine and the one stream each does its work on.
namespace binade::backend::cuda {

// Fails with the call's name and CUDA's words unless `status` is success.
void check(cudaError_t status, std::string_view call);

// What a GPU is and can do.
struct Properties {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory = 0;            // bytes
  int64_t shared_per_block = 0;  // bytes a block may opt in to

  int capability() const { return 10 * major + minor; }
};

// All GPUs this process may use; empty where there is no driver or no GPU.
const std::vector<Properties>& devices();

// Makes `device` the one that later calls of this thread work on. Cheap where it is already.
void activate(Device device);

// The active device.
Device device();

// The active device's properties and its stream. All kernels and copies of a device go to one
// stream, so blocks that the allocator hands out again are safe to write at once.
const Properties& properties();
cudaStream_t stream();

// Waits until the active device has done all it was given.
void synchronize();

}  // namespace binade::backend::cuda
