#pragma once

#include <memory>

#include "binade/base/function_ref.h"
#include "binade/tensor/memory.h"

namespace binade::backend {

// Work captured once on a device and replayed any number of times: the same kernels at the same
// addresses, for the host cost of one launch. Copies refer to the same graph.
class Graph {
 public:
  // Whether the device can capture work.
  static bool is_supported(Device device);

  // Calls `work` and captures its kernels without running them. The work must not wait for the
  // device or read its memory, and everything a run creates only once (tuned matmuls, optimizer
  // state) must exist already. The graph keeps the memory the work uses.
  void capture(Device device, FunctionRef<void()> work);
  bool captured() const { return state_ != nullptr; }

  // Submits the captured work once more, after all work submitted before.
  void replay() const;

  // The memory pool, for other work between two replays; see memory::PrivatePool::Use.
  memory::PrivatePool& pool() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace binade::backend
