#pragma once

#include <memory>

#include "binade/base/function_ref.h"
#include "binade/tensor/memory.h"

namespace binade::backend {

// Work for a device, recorded once and then started as a whole as often as wanted: the same kernels
// on the same addresses, at the price of one call on the host. Copies are the same graph.
class Graph {
 public:
  // Whether work on the device can be recorded.
  static bool possible(Device device);

  // Calls `work`, whose kernels are recorded and do nothing yet. It may not wait for the device nor
  // read its memory, and what it makes for the first time in a run (tuned products, optimizer
  // state) must have been made before. The memory it uses stays the graph's.
  void capture(Device device, FunctionRef<void()> work);
  bool captured() const { return state_ != nullptr; }

  // Gives the recorded work to the device once more, behind all that it was given before.
  void launch() const;

  // For other work between two launches; see memory::PrivatePool::Use.
  memory::PrivatePool& memory() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace binade::backend
