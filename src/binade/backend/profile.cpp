#include "binade/backend/profile.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "binade/backend/backend.h"

namespace binade::backend {

struct ProfilerSession {
  Device device;
  Profiler::Clock clock = nullptr;
  Backend plain;  // the device's kernels
  Backend timed;  // wrappers that time them
  WorkSeconds seconds{};
};

namespace {

ProfilerSession* active_session = nullptr;

// Converts to a kernel of any type that calls and times entry I of the family at `Member`.
template <auto Member, size_t I, Work work>
struct Timed {
  template <class... Args>
  using Kernel = void (*)(Args...);

  template <class... Args>
  constexpr operator Kernel<Args...>() const {
    return [](Args... args) {
      ProfilerSession& session = *active_session;
      Kernel<Args...> kernel;
      const auto* family = reinterpret_cast<const std::byte*>(&(session.plain.*Member));
      std::memcpy(&kernel, family + I * sizeof(kernel), sizeof(kernel));
      const double start = session.clock(session.device);
      kernel(std::forward<Args>(args)...);
      session.seconds[static_cast<size_t>(work)] += session.clock(session.device) - start;
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

}  // namespace

std::string_view name(Work work) {
  constexpr std::string_view names[] = {"matrix", "attention", "norm",    "elementwise",
                                        "loss",   "optimizer", "quantize"};
  return names[static_cast<size_t>(work)];
}

Profiler::Profiler(Device device, Clock clock)
    : session_(
          new ProfilerSession{.device = device, .clock = clock, .plain = of(device), .timed = {}}),
      scope_(active_session, session_.get()) {
  time_all(session_->timed);
}

Profiler::~Profiler() = default;

const WorkSeconds& Profiler::seconds() const { return session_->seconds; }

const Backend* profiled(Device device) {
  const bool active = active_session != nullptr && device == active_session->device;
  return active ? &active_session->timed : nullptr;
}

}  // namespace binade::backend
