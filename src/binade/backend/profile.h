#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "binade/base/restore.h"
#include "binade/tensor/device.h"

namespace binade::backend {

struct Backend;
struct ProfilerSession;

// Kernel categories in benchmarks.
enum class Work : uint8_t { matrix, attention, norm, elementwise, loss, optimizer, quantize };
inline constexpr int work_count = 7;
std::string_view name(Work work);

// Seconds spent in kernels, by category.
using WorkSeconds = std::array<double, work_count>;

// Marks points in a device's work and measures the time between them.
class WorkClock {
 public:
  WorkClock() = default;
  virtual ~WorkClock() = default;
  WorkClock(const WorkClock&) = delete;
  WorkClock& operator=(const WorkClock&) = delete;

  // Marks the end of the work so far; returns the mark's number. Does not wait for the device.
  virtual size_t mark() = 0;
  // Seconds between two marks. Waits for the second.
  virtual double seconds(size_t first, size_t second) = 0;
};

// Marks by events in the stream of a GPU, and otherwise by `now`.
std::unique_ptr<WorkClock> work_clock(Device device, double (*now)());

// For its lifetime, times every kernel of a device: of() returns a table that marks the begin and
// the end of each. Only one profiler may exist, on the thread that runs the ops.
class [[nodiscard]] Profiler {
 public:
  Profiler(Device device, std::unique_ptr<WorkClock> clock);
  ~Profiler();

  // Time of the kernels so far.
  WorkSeconds seconds() const;

 private:
  std::unique_ptr<ProfilerSession> session_;
  Restore<ProfilerSession*> scope_;
};

// The timing table if `device` is being profiled, else null.
const Backend* profiled(Device device);

}  // namespace binade::backend
