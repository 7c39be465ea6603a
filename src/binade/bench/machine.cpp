#include "binade/bench/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/backend/cpu/gemm/peak_flops.h"
#include "binade/backend/gpu.h"
#include "binade/base/parallel.h"

namespace binade::bench {
namespace {

bool use_cpu_time = false;

std::string gpu_name(Device device) {
  const auto at = static_cast<size_t>(device.index);
  if (at < backend::gpus().size()) return backend::gpus()[at].name;
  return {};
}

// Dense TFLOP/s from the makers' data sheets, in order of precision names below.
struct GpuPeak {
  std::string_view name;  // part of the GPU's own
  double fp32, tf32, half, fp8;
};
constexpr GpuPeak gpu_peaks[] = {
    {"A100", 19.5, 156, 312, 0},
    {"H100 PCIe", 51, 378, 756, 1513},
    {"H100", 67, 494.7, 989.4, 1978.9},
    {"H200", 67, 494.7, 989.4, 1978.9},
};

double gpu_peak(Device device, std::string_view precision) {
  const std::string name = gpu_name(device);
  for (const GpuPeak& gpu : gpu_peaks) {
    if (name.find(gpu.name) == std::string::npos) continue;
    const double tera = precision == "fp32"   ? gpu.fp32
                        : precision == "tf32" ? gpu.tf32
                        : precision == "fp8"  ? gpu.fp8
                                              : gpu.half;
    return tera * 1e12;
  }
  return 0;
}

}  // namespace

double bench_clock() {
  if (use_cpu_time) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void set_bench_clock(bool cpu_time) { use_cpu_time = cpu_time; }

void wait_for(Device device) { backend::synchronize(device); }

std::string device_text(Device device) {
  if (device.is_cuda()) return fmt::format("{}, {}", to_string(device), gpu_name(device));
  if (!device.is_cpu()) return to_string(device);
  return fmt::format("cpu, {} threads, kernels of {}", threads(),
                     backend::cpu::current_level().name);
}

double peak_rate(Device device, std::string_view precision, double seconds) {
  if (device.is_cuda()) return gpu_peak(device, precision);
  if (!device.is_cpu()) return 0;
  // FP8 operands become bf16 on their way into a product, f16 and TF32 ones f32.
  const bool bf16 =
      (precision == "bf16" || precision == "fp8") && backend::cpu::current_level().bf16 != nullptr;
  return bf16 ? backend::cpu::bf16_peak(seconds) : backend::cpu::f32_peak(seconds);
}

std::vector<double> contest(Device device, const std::vector<std::function<void()>>& contestants,
                            double seconds) {
  // Waiting for a GPU costs as much as a short kernel: several calls share one wait.
  const int calls = device.is_cuda() ? 20 : 1;
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
