#pragma once

#include <cuda_runtime.h>

#include "binade/backend/cuda/device.h"
#include "binade/base/function_ref.h"

namespace binade::backend::cuda {

// An executable CUDA graph of the work that `work` submitted to the active device's stream.
class CapturedGraph {
 public:
  explicit CapturedGraph(FunctionRef<void()> work);
  // Waits until no launch is running.
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void launch() const;

 private:
  Device device_;
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace binade::backend::cuda
