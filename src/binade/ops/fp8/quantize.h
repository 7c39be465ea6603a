#pragma once

#include "binade/tensor/quantized.h"

namespace binade {

struct QuantizeOptions {
  DType dtype = DType::e4m3;  // or e5m2
  ScaleGroup group = {};      // one scale per tensor by default
  bool mx = false;            // OCP MX: groups of 32 along rows, e8m0 scales
  bool power_of_two = false;  // round scales down to a power of two
  double eps = 0;             // lower bound of amax
};

// Quantizes x [rows, columns] to FP8 with scales from its own values. Records no gradient: training
// in FP8 goes through amp::Fp8Autocast.
Quantized quantize(const Tensor& x, const QuantizeOptions& options = {});
// Quantizes x * scale, saturating.
Quantized quantize(const Tensor& x, double scale, DType dtype = DType::e4m3);
// The values in f64, f32, f16 or bf16.
Tensor dequantize(const Quantized& q, DType dtype = DType::f32);

}  // namespace binade
