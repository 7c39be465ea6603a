#include "binade/backend/graph.h"

#include <optional>

#include "binade/backend/backend.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/graph.h"
#endif

namespace binade::backend {

struct Graph::State {
  explicit State(Device device) : pool(device) {}

  memory::PrivatePool pool;
#ifdef BINADE_CUDA
  std::optional<cuda::CapturedGraph> graph;
#endif
};

memory::PrivatePool& Graph::pool() const { return state_->pool; }

#ifdef BINADE_CUDA

bool Graph::is_supported(Device device) { return device.is_cuda(); }

void Graph::capture(Device device, FunctionRef<void()> work) {
  of(device);  // activates the device
  const auto state = std::make_shared<State>(device);
  state->pool.capture([&] { state->graph.emplace(work); });
  state_ = state;
}

void Graph::replay() const {
  state_->graph->launch();
  state_->pool.count_replay();
}

#else

bool Graph::is_supported(Device) { return false; }

void Graph::capture(Device device, FunctionRef<void()>) {
  fail("graph", {.argument = "device",
                 .expected = "a GPU and a build with CUDA",
                 .found = to_string(device)});
}

void Graph::replay() const {}

#endif

}  // namespace binade::backend
