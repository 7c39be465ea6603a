#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/tensor/device.h"
#include "binade/train/config/choices.h"

namespace binade::bench {

// A matmul of [m, k] and [k, n].
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
};

// One kind of matmul in a training step.
struct GemmCase {
  std::string name;  // "bf16 wgrad"
  train::Precision precision;
};

// FLOP/s of each case at one shape.
struct GemmTiming {
  GemmShape shape;
  std::vector<double> rates;       // in the order of GemmReport::cases
  std::optional<double> openblas;  // of OpenBLAS's sgemm on a CPU; none if it is not installed
};

struct GemmReport {
  Device device;
  std::vector<GemmCase> cases;
  std::vector<double> peaks;  // train::instruction_peak of each case; 0: unknown
  std::vector<GemmTiming> shapes;
};

// A large matmul and those of a GPT's training step.
std::vector<GemmShape> default_gemm_shapes();

// Measures the device's matmuls, each shape for `seconds`, in turns with OpenBLAS's sgemm on a CPU
// if it is installed.
GemmReport bench_gemm(Device device, const std::vector<GemmShape>& shapes, double seconds);

std::string to_table(const GemmReport& report);
std::string to_json(const GemmReport& report);

}  // namespace binade::bench
