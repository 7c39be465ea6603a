#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "binade/tensor/device.h"

namespace binade::backend {

struct Backend;

// What a kernel works at, as benchmarks sum it up.
enum class Work : uint8_t { matrix, attention, norm, elementwise, loss, optimizer, quantize };
inline constexpr int work_count = 7;
std::string_view name(Work work);

// Seconds in kernels by kind of work.
using WorkSeconds = std::array<double, work_count>;

// Times every kernel of a device while it lives: of() then hands out a table that asks `clock`
// before and after each. The clock waits for the device, so that a kernel's time is its own. One at
// a time, on the thread that runs the ops.
class Profiler {
 public:
  using Clock = double (*)(Device device);

  Profiler(Device device, Clock clock);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  const WorkSeconds& seconds() const;
};

// The table that times, where `device` is being profiled; null elsewhere.
const Backend* profiled(Device device);

}  // namespace binade::backend
