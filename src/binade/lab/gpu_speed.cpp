#include "binade/lab/gpu_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <span>

#include "binade/base/error.h"
#include "binade/train/config/component_options.h"

namespace binade::lab {
namespace {

constexpr double tera = 1e12;

// The fraction of the peak that steps without the optimizer reach on an H200, by the model's width:
// GPT-2 124M, Llama 1.3B and 8 layers of an 8B Llama in docs/benchmarks.md.
struct Utilization {
  double width, fraction;
};
constexpr Utilization bf16_utilization[] = {{768, 0.525}, {2048, 0.616}, {4096, 0.650}};
constexpr Utilization quantized_utilization[] = {{768, 0.280}, {2048, 0.432}, {4096, 0.490}};
// TF32 and f32 relative to that of bf16, from GPT-2 124M.
constexpr double tf32_factor = 0.835, f32_factor = 1.58;
// The share of such a step that norms and elementwise work take on an H200, by traffic.
constexpr double memory_bound = 0.1;
// What the optimizer reaches of the bandwidth.
constexpr double update_efficiency = 0.8;
// Widths far below the narrowest measured one are taken for this.
constexpr double narrowest = 384;

// Machines of one kind differ by 3%, batches and arrangements by more. Of other GPUs only data
// sheets are known.
constexpr double measured_range = 0.1, low_elsewhere = 0.3, high_elsewhere = 0.15;

double interpolated(std::span<const Utilization> points, double width) {
  width = std::max(width, narrowest);
  // The line through the nearest two, by the logarithm of the width; beyond the last it stays.
  if (width >= points.back().width) return points.back().fraction;
  size_t next = 1;
  while (next + 1 < points.size() && width > points[next].width) ++next;
  const Utilization &a = points[next - 1], &b = points[next];
  const double at = std::log(width / a.width) / std::log(b.width / a.width);
  return a.fraction + at * (b.fraction - a.fraction);
}

double utilization_of(train::Precision precision, double width) {
  using train::Precision;
  if (precision == Precision::quantized) return interpolated(quantized_utilization, width);
  const double bf16 = interpolated(bf16_utilization, width);
  return precision == Precision::fp32   ? f32_factor * bf16
         : precision == Precision::tf32 ? tf32_factor * bf16
                                        : bf16;
}

std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

}  // namespace

double Gpu::peak(train::Precision precision) const {
  using train::Precision;
  const double rate = precision == Precision::fp32        ? f32
                      : precision == Precision::tf32      ? tf32
                      : precision == Precision::quantized ? fp8
                                                          : bf16;
  return rate > 0 ? rate : bf16;
}

const std::vector<Gpu>& known_gpus() {
  // Data sheets of H200 and H100 SXM, A100 SXM 80 GB and GeForce RTX 4090: rates without sparsity.
  static const std::vector<Gpu> all = {
      {"H200", 67 * tera, 494.7 * tera, 989.4 * tera, 1978.9 * tera, 4.8 * tera, 141'000'000'000},
      {"H100", 67 * tera, 494.7 * tera, 989.4 * tera, 1978.9 * tera, 3.35 * tera, 80'000'000'000},
      {"A100", 19.5 * tera, 156 * tera, 312 * tera, 0, 2.039 * tera, 80'000'000'000},
      {"RTX 4090", 82.6 * tera, 82.6 * tera, 165.2 * tera, 330.3 * tera, 1.008 * tera,
       24'000'000'000}};
  return all;
}

namespace {

// The one that was measured.
const Gpu& h200() { return known_gpus().front(); }

}  // namespace

const Gpu& find_gpu(std::string_view name) {
  std::string names;
  for (const Gpu& one : known_gpus()) {
    if (plain(one.name) == plain(name)) return one;
    names += (names.empty() ? "" : ", ") + one.name;
  }
  fail("plan", {.argument = "--gpu",
                .expected = "one of " + names,
                .found = "'" + std::string(name) + "'",
                .hint = "--tflops takes the bf16 rate of any other GPU"});
}

Gpu gpu_of_tflops(double tflops) {
  const double factor = tflops * tera / h200().bf16;
  return {.name = fmt::format("a GPU of {:g} TFLOP/s in bf16", tflops),
          .f32 = factor * h200().f32,
          .tf32 = factor * h200().tf32,
          .bf16 = factor * h200().bf16,
          .fp8 = factor * h200().fp8,
          .bandwidth = factor * h200().bandwidth};
}

train::Config on_a_gpu(train::Config config) {
  config.train.device = Device::meta_gpu();
  return config;
}

SpeedRange speed_on(const Gpu& gpu, const train::Config& config, const Forecast& forecast) {
  double flops = 0, update_bytes = 0;
  for (const Work& one : forecast.work) {
    flops += one.flops;
    if (one.kind == WorkKind::update) update_bytes += one.bytes;
  }
  const bool lacks_fp8 = forecast.precision == train::Precision::quantized && gpu.fp8 == 0;
  const train::Precision precision = lacks_fp8 ? train::Precision::bf16 : forecast.precision;
  // Traffic takes longer, relative to matmuls, on a GPU with less bandwidth for its rate.
  const double traffic =
      (gpu.peak(precision) / gpu.bandwidth) / (h200().peak(precision) / h200().bandwidth);
  const double slower = 1 - memory_bound + memory_bound * traffic;
  const double utilization =
      utilization_of(precision, static_cast<double>(config.model.width)) / slower;
  const double seconds = flops / (gpu.peak(precision) * utilization) +
                         update_bytes / (gpu.bandwidth * update_efficiency);
  const auto tokens = static_cast<double>(train::step_tokens(config));
  const double likely = tokens / seconds;
  const bool is_measured = gpu.name == h200().name;
  return {.low = likely * (1 - (is_measured ? measured_range : low_elsewhere)),
          .likely = likely,
          .high = likely * (1 + (is_measured ? measured_range : high_elsewhere))};
}

}  // namespace binade::lab
