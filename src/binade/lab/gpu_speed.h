#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/lab/plan.h"

// The speed of training on a GPU that this machine does not have.
namespace binade::lab {

// What the vendor's data sheet says. Rates are those of dense matmuls with f32 sums; 0: the GPU has
// no such matmul and runs it in bf16.
struct Gpu {
  std::string name;
  double f32 = 0, tf32 = 0, bf16 = 0, fp8 = 0;  // FLOP/s; f16 is as fast as bf16
  double bandwidth = 0;                         // bytes per second
  int64_t memory = 0;                           // bytes; 0: unknown

  double peak(train::Precision precision) const;
};

// The GPUs that are known: H100, H200, A100 and RTX 4090.
const std::vector<Gpu>& known_gpus();
// By its name, whatever its case and spaces. Fails with the known names.
const Gpu& find_gpu(std::string_view name);
// One of which only the rate of bf16 matmuls is known; the rest is in proportion to an H200's.
Gpu gpu_of_tflops(double tflops);

// The configuration on a device without data that allocates as a GPU does.
train::Config on_a_gpu(train::Config config);

// From the utilization measured on an H200 for models of that width (docs/benchmarks.md), whose
// share of memory-bound work is rescaled by the GPU's bandwidth, and the optimizer's traffic.
SpeedRange speed_on(const Gpu& gpu, const train::Config& config, const Forecast& forecast);

}  // namespace binade::lab
