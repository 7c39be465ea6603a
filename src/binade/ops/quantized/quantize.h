#pragma once

#include "binade/amp/recipe/recipe.h"
#include "binade/tensor/quantized.h"

namespace binade {

// Quantizes x [rows, columns] with scales from its own values: one scale per tensor to e4m3 by
// default. Records no gradient: training goes through amp::QuantizedAutocast.
Quantized quantize(const Tensor& x, const amp::TensorRecipe& recipe = {});
// Quantizes x * scale, saturating.
Quantized quantize(const Tensor& x, double scale, DType dtype = DType::e4m3);
// The values in f64, f32, f16 or bf16.
Tensor dequantize(const Quantized& q, DType dtype = DType::f32);

}  // namespace binade
