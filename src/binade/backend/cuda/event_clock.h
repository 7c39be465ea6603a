#pragma once

#include <vector>

#include "binade/backend/profile.h"

namespace binade::backend::cuda {

// Marks are events in the stream of a GPU: kernels follow one another as in a step that is not
// timed, with the clocks and the temperature of such a step.
class EventClock final : public WorkClock {
 public:
  explicit EventClock(Device device) : device_(device) {}
  ~EventClock() override;

  size_t mark() override;
  double seconds(size_t first, size_t second) override;

 private:
  Device device_;
  std::vector<void*> events_;  // cudaEvent_t
};

}  // namespace binade::backend::cuda
