#include "binade/backend/cuda/device.h"

#include <atomic>

#include "binade/backend/cuda/virtual_memory.h"
#include "binade/base/error.h"
#include "binade/tensor/memory.h"

namespace binade::backend::cuda {
namespace {

// A copy of the CUDA runtime's own setting, which is per thread.
thread_local int active = -1;
std::atomic<int64_t> waits = 0;

// Counts a wait if `query`, the result of an event or stream query, is "not ready".
void count_wait_unless_done(cudaError_t query) {
  if (query != cudaErrorNotReady) return;
  cudaGetLastError();  // clears "not ready", which is not an error
  ++waits;
}

std::vector<Gpu> find_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();  // a missing driver is not an error: there are just no GPUs
    return {};
  }
  std::vector<Gpu> found;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp from{};
    check(cudaGetDeviceProperties(&from, i), "cudaGetDeviceProperties");
    found.push_back({.name = from.name,
                     .major = from.major,
                     .minor = from.minor,
                     .multiprocessors = from.multiProcessorCount,
                     .memory = static_cast<int64_t>(from.totalGlobalMem),
                     .shared_per_block = static_cast<int64_t>(from.sharedMemPerBlockOptin)});
  }
  return found;
}

void* acquire_block(size_t bytes, Device device) {
  activate(device);
  void* block = nullptr;
  if (cudaMalloc(&block, bytes) == cudaSuccess) return block;
  cudaGetLastError();
  return nullptr;
}

void release_block(void* block, Device device) {
  activate(device);
  check(cudaFree(block), "cudaFree");
}

// Runs at load time, because a tensor may be created on a GPU before any kernel runs.
const bool source_installed = [] {
  memory::install_source(Device::Kind::cuda, {.acquire = acquire_block,
                                              .release = release_block,
                                              .granularity = virtual_memory_granularity,
                                              .reserve = reserve_addresses,
                                              .commit = commit_memory,
                                              .decommit = decommit_memory});
  return true;
}();

std::vector<cudaStream_t> make_streams() {
  std::vector<cudaStream_t> streams(devices().size());
  for (size_t i = 0; i < streams.size(); ++i) {
    check(cudaSetDevice(static_cast<int>(i)), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), "cudaStreamCreate");
  }
  if (active >= 0) check(cudaSetDevice(active), "cudaSetDevice");
  return streams;
}

}  // namespace

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  fail(std::string(call),
       {.argument = "CUDA",
        .expected = "success",
        .found = std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status)});
}

const std::vector<Gpu>& devices() {
  static const std::vector<Gpu> found = find_devices();
  return found;
}

int64_t free_memory(Device device) {
  activate(device);
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(free);
}

void activate(Device device) {
  if (device.index == active) return;
  if (!source_installed || static_cast<size_t>(device.index) >= devices().size()) {
    fail("backend",
         {.argument = "device",
          .expected = devices().empty() ? "a machine with an NVIDIA GPU and its driver"
                                        : std::to_string(devices().size()) + " GPUs, from cuda:0",
          .found = to_string(device),
          .hint = "run on the cpu, or see which GPUs there are with: binade info"});
  }
  check(cudaSetDevice(device.index), "cudaSetDevice");
  active = device.index;
}

Device device() { return Device::cuda(active); }

const Gpu& properties() { return devices()[static_cast<size_t>(active)]; }

cudaStream_t stream() {
  static const std::vector<cudaStream_t> streams = make_streams();
  return streams[static_cast<size_t>(active)];
}

bool is_capturing() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream(), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void synchronize() {
  count_wait_unless_done(cudaStreamQuery(stream()));
  check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
}

void synchronize_all() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

void wait_for(cudaEvent_t event) {
  count_wait_unless_done(cudaEventQuery(event));
  check(cudaEventSynchronize(event), "cudaEventSynchronize");
}

int64_t host_waits() { return waits; }

}  // namespace binade::backend::cuda
