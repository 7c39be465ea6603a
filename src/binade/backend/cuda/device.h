#pragma once

#include <cuda_runtime.h>

#include <string_view>
#include <vector>

#include "binade/backend/gpu.h"

// The GPUs of this machine, each with one stream.
namespace binade::backend::cuda {

// Fails with the call's name and CUDA's message unless `status` is success.
void check(cudaError_t status, std::string_view call);

// All GPUs this process may use; empty if there is no driver or no GPU.
const std::vector<Gpu>& devices();
// Bytes of its memory that no process uses.
int64_t free_memory(Device device);

// Selects the device for later calls on this thread. Cheap if it is already selected.
void activate(Device device);

// The active device.
Device device();

// The active device's properties and stream. All kernels and copies of a device use this one
// stream, so reused memory blocks are safe to write without synchronization.
const Gpu& properties();
cudaStream_t stream();

// Whether the stream is capturing a graph, so that work submitted to it does not run.
bool is_capturing();

// Waits until the active device has finished all submitted work.
void synchronize();
// Waits for the work of every library in this process.
void synchronize_all();

// Waits until the device has reached `event`.
void wait_for(cudaEvent_t event);

// Number of times synchronize() or wait_for() found the device busy.
int64_t host_waits();

}  // namespace binade::backend::cuda
