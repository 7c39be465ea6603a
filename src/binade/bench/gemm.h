#pragma once

#include <string>
#include <vector>

#include "binade/tensor/device.h"

namespace binade::bench {

// A product of [m, k] and [k, n].
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
};

// One kind of product as a training step asks for it, and what it could do at best.
struct GemmCase {
  std::string name;       // "bf16 wgrad"
  std::string precision;  // as peak_rate names it
};

// Operations per second of each case at one shape.
struct GemmTiming {
  GemmShape shape;
  std::vector<double> rates;  // in the order of GemmReport::cases
  double openblas = 0;        // of OpenBLAS's sgemm; 0: not installed, or not on a CPU
};

struct GemmReport {
  Device device;
  std::vector<GemmCase> cases;
  std::vector<double> peaks;  // per case; 0: not known
  std::vector<GemmTiming> shapes;
};

// The large product and those of a GPT's step.
std::vector<GemmShape> default_gemm_shapes();

// Measures the device's products, each shape for `seconds`, in turns with OpenBLAS's sgemm, which
// is loaded where it is installed.
GemmReport bench_gemm(Device device, const std::vector<GemmShape>& shapes, double seconds);

std::string to_table(const GemmReport& report);
std::string to_json(const GemmReport& report);

}  // namespace binade::bench
