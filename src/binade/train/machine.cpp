#include "binade/train/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <tuple>

#include "binade/amp/capability.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/backend/cpu/gemm/peak_flops.h"
#include "binade/backend/gpu.h"
#include "binade/base/function_ref.h"
#include "binade/base/parallel.h"
#include "binade/nn/linear.h"
#include "binade/nn/norm.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/train/config/component_options.h"

namespace binade::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Seconds: long enough for several calls, short enough to go unnoticed at the start of a run. A
// plan measures many kinds of layers.
constexpr double budget = 0.06, budget_of_layers = 0.01;
// Calls timed together: waiting for a GPU costs as much as a short kernel.
constexpr double seconds_between_waits = 0.005;
// Sides of a square matmul that keeps a device busy for milliseconds.
constexpr int64_t cpu_side = 768, gpu_side = 8192;

// Dense TFLOP/s from the vendors' data sheets.
struct GpuPeak {
  std::string_view name;  // part of the GPU's own
  double fp32, tf32, half, quarter;

  double of(Precision precision) const {
    switch (precision) {
      case Precision::fp32:
        return fp32;
      case Precision::tf32:
        return tf32;
      case Precision::quantized:
        return quarter;
      default:
        return half;
    }
  }
};
constexpr GpuPeak gpu_peaks[] = {
    {"A100", 19.5, 156, 312, 0},
    {"H100 PCIe", 51, 378, 756, 1513},
    {"H100", 67, 494.7, 989.4, 1978.9},
    {"H200", 67, 494.7, 989.4, 1978.9},
};

// For its lifetime linear layers run in a precision.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision, const amp::Recipe& recipe = amp::recipes::delayed())
      : cast_(autocast_type(precision), {.enabled = uses_autocast(precision)}),
        matmul_(matmul_precision(precision)),
        quantized_({.enabled = precision == Precision::quantized, .recipe = recipe}) {}

 private:
  amp::Autocast cast_;
  amp::MatmulPrecisionGuard matmul_;
  amp::QuantizedAutocast quantized_;
};

// The type that a precision's matmuls take and give.
DType value_type(Precision precision) {
  return uses_autocast(precision) ? autocast_type(precision) : DType::f32;
}

// Seconds of one call, the best of several within the budget. The first call is discarded: it
// allocates, and on a GPU it tunes.
double best_seconds(Device device, double budget_seconds, FunctionRef<void()> call) {
  const auto seconds_of = [&](int64_t calls) {
    backend::synchronize(device);
    const auto begin = SteadyClock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    backend::synchronize(device);
    return std::chrono::duration<double>(SteadyClock::now() - begin).count();
  };
  seconds_of(1);
  double best = seconds_of(1), spent = best;
  while (spent < budget_seconds) {
    const auto calls =
        std::clamp<int64_t>(static_cast<int64_t>(seconds_between_waits / best), 1, 1000);
    const double elapsed = seconds_of(calls);
    spent += elapsed;
    best = std::min(best, elapsed / static_cast<double>(calls));
  }
  return best;
}

double measure_matmul(Device device, Precision precision) {
  const int64_t n = backend::capabilities(device).is_massively_parallel ? gpu_side : cpu_side;
  const NoGrad no_grad;
  const memory::CategoryGuard category(memory::Category::workspace);
  const PrecisionScope scope(precision);
  const DType type = value_type(precision);
  nn::Linear layer({.in = n, .out = n, .bias = false}, {device, type});
  const Tensor x = full({n, n}, 0.5, type, device);
  const auto side = static_cast<double>(n);
  return 2 * side * side * side / best_seconds(device, budget, [&] { layer(x); });
}

}  // namespace

std::string gpu_name(Device device) {
  const auto at = static_cast<size_t>(device.index);
  if (!device.is_cuda() || at >= backend::gpus().size()) return {};
  return backend::gpus()[at].name;
}

std::string cpu_name() {
  struct ArmPart {
    std::string_view number, name;
  };
  // Arm systems have numbers instead of names; these are Arm's own server cores.
  constexpr ArmPart arm_parts[] = {{"0xd0c", "Neoverse N1"},
                                   {"0xd40", "Neoverse V1"},
                                   {"0xd49", "Neoverse N2"},
                                   {"0xd4f", "Neoverse V2"}};
  std::ifstream file("/proc/cpuinfo");
  std::string implementer, part;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) part = value;
  }
  for (const ArmPart& known : arm_parts) {
    if (implementer == "0x41" && part == known.number) return std::string(known.name);
  }
  return part.empty() ? "unknown" : fmt::format("Arm, implementer {}, part {}", implementer, part);
}

std::string machine_name(Device device) {
  if (device.is_cuda()) return gpu_name(device);
  return fmt::format("{}, {} thread{}", cpu_name(), threads(), threads() == 1 ? "" : "s");
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string result;
  for (std::string argument; std::getline(file, argument, '\0');) {
    if (result.empty()) {
      result = std::filesystem::path(argument).filename().string();
      continue;
    }
    const bool plain =
        !argument.empty() && argument.find_first_not_of(
                                 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 "_-+=./,:@%") == std::string::npos;
    // In single quotes, where only a single quote is special.
    for (size_t at = 0; !plain && (at = argument.find('\'', at)) != std::string::npos; at += 4)
      argument.replace(at, 1, "'\\''");
    result += plain ? " " + argument : " '" + argument + "'";
  }
  return result;
}

double instruction_peak(Device device, Precision precision, double seconds) {
  const std::string name = gpu_name(device);  // empty for others
  for (const GpuPeak& gpu : gpu_peaks) {
    if (name.find(gpu.name) != std::string::npos) return 1e12 * gpu.of(precision);
  }
  if (!device.is_cpu()) return 0;
  // Quantized operands become bf16 on their way into a matmul, f16 and TF32 ones f32.
  const bool bf16 = (precision == Precision::bf16 || precision == Precision::quantized) &&
                    backend::cpu::current_level().bf16 != nullptr;
  return bf16 ? backend::cpu::bf16_peak(seconds) : backend::cpu::f32_peak(seconds);
}

double matmul_rate(Device device, Precision precision) {
  static std::mutex mutex;
  static std::map<std::tuple<Device::Kind, int, Precision, int>, double> known;
  const bool emulated = precision == Precision::quantized &&
                        amp::matmul_support(DType::e4m3, device) != amp::Support::native;
  if (emulated) precision = Precision::bf16;
  const std::lock_guard lock(mutex);
  auto [found, is_new] = known.try_emplace({device.kind, device.index, precision, threads()}, 0);
  if (is_new) found->second = measure_matmul(device, precision);
  return found->second;
}

double linear_rate(Device device, Precision precision, const amp::Recipe& recipe,
                   const LayerShape& shape) {
  nn::Linear layer({.in = shape.in, .out = shape.out, .bias = false}, {device, DType::f32});
  const Tensor x = full({shape.rows, shape.in}, 0.5, DType::f32, device).set_requires_grad();
  const Tensor dy = full({shape.rows, shape.out}, 0.5, value_type(precision), device);
  const PrecisionScope scope(precision, recipe);
  constexpr double matmuls = 3;  // forward, and the gradients of the input and of the weight
  return matmuls * 2 * static_cast<double>(shape.rows) * static_cast<double>(shape.in) *
         static_cast<double>(shape.out) /
         best_seconds(device, budget_of_layers, [&] { layer(x).backward(dy); });
}

double weight_cast_seconds(Device device, Precision precision, const amp::Recipe& recipe,
                           const LayerShape& shape) {
  if (!uses_autocast(precision)) return 0;
  constexpr int64_t rows = 16;  // next to nothing beside the cast
  nn::Linear layer({.in = shape.in, .out = shape.out, .bias = false}, {device, DType::f32});
  const Tensor x = full({rows, shape.in}, 0.5, DType::f32, device).set_requires_grad();
  const Tensor dy = full({rows, shape.out}, 0.5, value_type(precision), device);
  const PrecisionScope scope(precision, recipe);
  const auto changed = [&layer] {
    const NoGrad no_grad;
    fill_(layer.weight.strided({1}, {1}, 0), 0.5);
  };
  const double first = best_seconds(device, budget_of_layers, [&] {
    changed();
    layer(x).backward(dy);
  });
  const double later = best_seconds(device, budget_of_layers, [&] { layer(x).backward(dy); });
  return std::max(first - later, 0.0) / static_cast<double>(shape.in * shape.out);
}

double norm_bandwidth(Device device, int64_t rows, int64_t width) {
  const auto norm = nn::make_norm(nn::NormKind::layer, width, 1e-5, {device, DType::f32});
  const Tensor x = randn({rows, width}, {1, 1}, DType::f32, device).set_requires_grad();
  const Tensor dy = randn({rows, width}, {1, 3}, DType::f32, device);
  // Forward: x, the residual, their sum and the norm; backward: dy, the sum and dx.
  constexpr double tensors = 7;
  return tensors * static_cast<double>(x.bytes()) /
         best_seconds(device, budget_of_layers, [&] { norm->add(x, dy).second.backward(dy); });
}

}  // namespace binade::train
