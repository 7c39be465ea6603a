#include "binade/backend/cuda/graph.h"

namespace binade::backend::cuda {
namespace {

// The captured graph, which the caller must destroy.
cudaGraph_t capture(cudaStream_t stream, FunctionRef<void()> work) {
  // Relaxed mode allows cudaMalloc, for blocks the cache does not have.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();  // clears the error of the aborted capture
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return graph;
}

}  // namespace

CapturedGraph::CapturedGraph(FunctionRef<void()> work) : device_(device()), stream_(stream()) {
  cudaGraph_t graph = capture(stream_, work);
  const cudaError_t status = cudaGraphInstantiateWithFlags(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
}

CapturedGraph::~CapturedGraph() {
  cudaStreamSynchronize(stream_);
  cudaGraphExecDestroy(executable_);
}

void CapturedGraph::launch() const {
  activate(device_);
  check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
}

}  // namespace binade::backend::cuda
