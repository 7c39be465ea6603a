#pragma once

#include "binade/tensor/quantized.h"

namespace binade {

struct QuantizeOptions {
  DType dtype = DType::e4m3;  // or e5m2
  ScaleGroup group = {};      // one scale per tensor by default
  bool mx = false;            // e8m0 scales of groups of 32 along rows (OCP MX)
  bool power_of_two = false;
  double eps = 0;
};

// x [rows, columns] in FP8 with scales from its own values. Without autograd: FP8 inside training
// is the business of amp::Fp8Autocast.
Quantized quantize(const Tensor& x, const QuantizeOptions& options = {});
// x * scale in FP8, saturating, with a scale of the caller's choice.
Quantized quantize(const Tensor& x, double scale, DType dtype = DType::e4m3);
// The values again, in a type of 16 bits or more.
Tensor dequantize(const Quantized& q, DType dtype = DType::f32);

}  // namespace binade
