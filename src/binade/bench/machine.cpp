#include "binade/bench/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

#include "binade/backend/capabilities.h"
#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/backend/gpu.h"
#include "binade/base/parallel.h"
#include "binade/train/machine.h"

namespace binade::bench {
namespace {

Clock clock_in_use = Clock::wall;

}  // namespace

double bench_clock() {
  if (clock_in_use == Clock::cpu) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void set_bench_clock(Clock clock) { clock_in_use = clock; }

void wait_for(Device device) { backend::synchronize(device); }

std::string device_text(Device device) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return fmt::format("cpu, {} threads, kernels of {}", threads(),
                         backend::cpu::current_level().name);
    case Device::Kind::cuda:
      return fmt::format("{}, {}", to_string(device), train::gpu_name(device));
    case Device::Kind::meta:
      break;
  }
  return to_string(device);
}

std::vector<double> contest(Device device, const std::vector<std::function<void()>>& contestants,
                            double seconds) {
  // Several calls share one wait for the device, which costs as much as a short kernel.
  const int calls = backend::capabilities(device).is_asynchronous ? 20 : 1;
  std::vector<double> best(contestants.size(), std::numeric_limits<double>::infinity());
  const double begin = bench_clock();
  for (int round = 0; round < 3 || bench_clock() - begin < seconds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      wait_for(device);
      const double start = bench_clock();
      for (int call = 0; call < calls; ++call) contestants[i]();
      wait_for(device);
      best[i] = std::min(best[i], (bench_clock() - start) / calls);
    }
  }
  return best;
}

}  // namespace binade::bench
