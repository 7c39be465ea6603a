#include "binade/backend/cuda/event_clock.h"

#include <cuda_runtime.h>

#include "binade/backend/cuda/device.h"

namespace binade::backend::cuda {

EventClock::~EventClock() {
  for (void* event : events_) cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

size_t EventClock::mark() {
  activate(device_);
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  events_.push_back(event);
  check(cudaEventRecord(event, stream()), "cudaEventRecord");
  return events_.size() - 1;
}

double EventClock::seconds(size_t first, size_t second) {
  auto* const begin = static_cast<cudaEvent_t>(events_[first]);
  auto* const end = static_cast<cudaEvent_t>(events_[second]);
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace binade::backend::cuda
