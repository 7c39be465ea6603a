#include "binade/backend/graph.h"

#include <optional>

#include "binade/backend/backend.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/graph.h"
#endif

namespace binade::backend {

struct Graph::State {
  explicit State(Device device) : memory(device) {}

  memory::PrivatePool memory;
#ifdef BINADE_CUDA
  std::optional<cuda::RecordedWork> work;
#endif
};

memory::PrivatePool& Graph::memory() const { return state_->memory; }

#ifdef BINADE_CUDA

bool Graph::possible(Device device) { return device.is_cuda(); }

void Graph::capture(Device device, FunctionRef<void()> work) {
  of(device);  // makes it the active one
  const auto state = std::make_shared<State>(device);
  state->memory.record([&] { state->work.emplace(work); });
  state_ = state;
}

void Graph::launch() const {
  state_->work->launch();
  state_->memory.book_run();
}

#else

bool Graph::possible(Device) { return false; }

void Graph::capture(Device device, FunctionRef<void()>) {
  fail("graph", {.argument = "device",
                 .expected = "a GPU and a build with CUDA",
                 .found = to_string(device)});
}

void Graph::launch() const {}

#endif

}  // namespace binade::backend
