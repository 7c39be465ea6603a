#pragma once

#include <array>
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

// For its lifetime, times every kernel of a device: of() returns a table that reads `clock` before
// and after each kernel. The clock must wait for the device, so that kernels do not overlap. Only
// one profiler may exist, on the thread that runs the ops.
class [[nodiscard]] Profiler {
 public:
  using Clock = double (*)(Device device);

  Profiler(Device device, Clock clock);
  ~Profiler();

  const WorkSeconds& seconds() const;

 private:
  std::unique_ptr<ProfilerSession> session_;
  Restore<ProfilerSession*> scope_;
};

// The timing table if `device` is being profiled, else null.
const Backend* profiled(Device device);

}  // namespace binade::backend
