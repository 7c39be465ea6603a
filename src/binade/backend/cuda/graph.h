#pragma once

#include <cuda_runtime.h>

#include "binade/backend/cuda/device.h"
#include "binade/base/function_ref.h"

namespace binade::backend::cuda {

// What `work` gave to the active device's stream, as one CUDA graph.
class RecordedWork {
 public:
  explicit RecordedWork(FunctionRef<void()> work);
  // Waits until no launch is under way.
  ~RecordedWork();
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;

  void launch() const;

 private:
  Device device_;
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace binade::backend::cuda
