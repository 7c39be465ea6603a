#include "binade/backend/cuda/graph.h"

namespace binade::backend::cuda {
namespace {

// The work as CUDA describes it, to be destroyed by the caller.
cudaGraph_t recorded(cudaStream_t stream, FunctionRef<void()> work) {
  // Relaxed: the driver may still be asked for a block that the cache lacks.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();  // a capture cut short is no error of what comes next
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return graph;
}

}  // namespace

RecordedWork::RecordedWork(FunctionRef<void()> work) : device_(device()), stream_(stream()) {
  cudaGraph_t graph = recorded(stream_, work);
  const cudaError_t status = cudaGraphInstantiateWithFlags(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
}

RecordedWork::~RecordedWork() {
  cudaStreamSynchronize(stream_);
  cudaGraphExecDestroy(executable_);
}

void RecordedWork::launch() const {
  activate(device_);
  check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
}

}  // namespace binade::backend::cuda
