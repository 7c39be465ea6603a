#include "binade/backend/profile.h"

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "binade/backend/backend.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/event_clock.h"
#endif

namespace binade::backend {

// One kernel between two marks.
struct TimedKernel {
  Work work;
  size_t begin, end;
};

struct ProfilerSession {
  Device device;
  std::unique_ptr<WorkClock> clock;
  Backend plain;  // the device's kernels
  Backend timed;  // wrappers that time them
  std::vector<TimedKernel> kernels = {};
};

namespace {

ProfilerSession* active_session = nullptr;

// Not inlined into the wrappers, of which there is one for every kernel.
[[gnu::noinline]] void add_timed(Work work, size_t begin) {
  active_session->kernels.push_back({work, begin, active_session->clock->mark()});
}

// Converts to a kernel of any type that calls and times entry I of the family at `Member`.
template <auto Member, size_t I, Work work>
struct Timed {
  template <class... Args>
  using Kernel = void (*)(Args...);

  template <class... Args>
  constexpr operator Kernel<Args...>() const {
    return [](Args... args) {
      Kernel<Args...> kernel;
      const auto* family = reinterpret_cast<const std::byte*>(&(active_session->plain.*Member));
      std::memcpy(&kernel, family + I * sizeof(kernel), sizeof(kernel));
      const size_t begin = active_session->clock->mark();
      kernel(std::forward<Args>(args)...);
      add_timed(work, begin);
    };
  }
};

// Replaces every entry of a family. Tables hold only function pointers.
template <auto Member, Work work, class Family>
void time_family(Family& family) {
  constexpr size_t entries = sizeof(Family) / sizeof(void (*)());
  family = []<size_t... I>(std::index_sequence<I...>) {
    return Family{Timed<Member, I, work>{}...};
  }
  (std::make_index_sequence<entries>());
}

void time_all(Backend& table) {
  time_family<&Backend::elementwise, Work::elementwise>(table.elementwise);
  time_family<&Backend::reduce, Work::elementwise>(table.reduce);
  time_family<&Backend::scan, Work::elementwise>(table.scan);
  time_family<&Backend::index, Work::elementwise>(table.index);
  time_family<&Backend::matmul, Work::matrix>(table.matmul);
  time_family<&Backend::conv, Work::matrix>(table.conv);
  time_family<&Backend::pool, Work::elementwise>(table.pool);
  time_family<&Backend::norm, Work::norm>(table.norm);
  time_family<&Backend::softmax, Work::loss>(table.softmax);
  time_family<&Backend::attention, Work::attention>(table.attention);
  time_family<&Backend::activation, Work::elementwise>(table.activation);
  time_family<&Backend::loss, Work::loss>(table.loss);
  time_family<&Backend::optimizer, Work::optimizer>(table.optimizer);
  time_family<&Backend::scaler, Work::optimizer>(table.scaler);
  time_family<&Backend::quantize, Work::quantize>(table.quantize);
}

class HostClock final : public WorkClock {
 public:
  explicit HostClock(double (*now)()) : now_(now) {}

  size_t mark() override {
    marks_.push_back(now_());
    return marks_.size() - 1;
  }
  double seconds(size_t first, size_t second) override { return marks_[second] - marks_[first]; }

 private:
  double (*now_)();
  std::vector<double> marks_;
};

}  // namespace

std::unique_ptr<WorkClock> work_clock([[maybe_unused]] Device device, double (*now)()) {
#ifdef BINADE_CUDA
  if (device.is_cuda()) return std::make_unique<cuda::EventClock>(device);
#endif
  return std::make_unique<HostClock>(now);
}

std::string_view name(Work work) {
  constexpr std::string_view names[] = {"matrix", "attention", "norm",    "elementwise",
                                        "loss",   "optimizer", "quantize"};
  return names[static_cast<size_t>(work)];
}

Profiler::Profiler(Device device, std::unique_ptr<WorkClock> clock)
    : session_(new ProfilerSession{
          .device = device, .clock = std::move(clock), .plain = of(device), .timed = of(device)}),
      scope_(active_session, session_.get()) {
  time_all(session_->timed);
}

Profiler::~Profiler() = default;

WorkSeconds Profiler::seconds() const {
  WorkSeconds sums{};
  for (const TimedKernel& kernel : session_->kernels)
    sums[static_cast<size_t>(kernel.work)] += session_->clock->seconds(kernel.begin, kernel.end);
  return sums;
}

const Backend* profiled(Device device) {
  const bool active = active_session != nullptr && device == active_session->device;
  return active ? &active_session->timed : nullptr;
}

}  // namespace binade::backend
