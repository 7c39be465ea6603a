#pragma once

#include <cuda_runtime.h>

#include <string_view>
#include <vector>

#include "binade/backend/gpu.h"

// The GPUs of this machine and the one stream each does its work on.
namespace binade::backend::cuda {

// Fails with the call's name and CUDA's words unless `status` is success.
void check(cudaError_t status, std::string_view call);

// All GPUs this process may use; empty where there is no driver or no GPU.
const std::vector<Gpu>& devices();

// Makes `device` the one that later calls of this thread work on. Cheap where it is already.
void activate(Device device);

// The active device.
Device device();

// The active device's properties and its stream. All kernels and copies of a device go to one
// stream, so blocks that the allocator hands out again are safe to write at once.
const Gpu& properties();
cudaStream_t stream();

// Whether what is given to the stream is being recorded instead of run.
bool capturing();

// Waits until the active device has done all it was given.
void synchronize();

// Waits until the device has come to `event`.
void wait_for(cudaEvent_t event);

// How often one of these two found the device still at work.
int64_t host_waits();

}  // namespace binade::backend::cuda
