#pragma once

#include "binade/autograd/node.h"
#include "binade/backend/matmul.h"
#include "binade/backend/quantize.h"
#include "binade/tensor/quantized.h"

// Matmuls of quantized matrices. Not part of the public interface.
namespace binade::ops {

// One operand of a matmul: quantized data with its scales, in groups along the reduction axis, or
// plain values without scales.
struct ScaledMatrix {
  Tensor matrix;
  Tensor scale_inv = {};
  ScaleGroup group = {};
};

// q for a matmul that reduces along q's rows (the columns of each row). Codes in bytes become
// values.
ScaledMatrix rowwise(const Quantized& q);
// q for a matmul that reduces along q's columns. Reads the transposed data if there is any, so that
// the reduction axis is contiguous.
ScaledMatrix columnwise(const Quantized& q);

Tensor transposed(const Tensor& matrix);
ScaledMatrix transposed(const ScaledMatrix& x);

// y = a x b with f32 sums, plus the gradient that y holds if it accumulates.
void quantized_matmul(const ScaledMatrix& a, const ScaledMatrix& b,
                      const autograd::GradSlot::Target& y, backend::Epilogue epilogue = {});

// quantized_matmul() with its result quantized to y.data; y.amax must be 0.
void quantized_matmul(const ScaledMatrix& a, const ScaledMatrix& b,
                      const backend::QuantizedOutput& y, backend::Epilogue epilogue = {});

// q without the data of its rows if it has them transposed, too.
Quantized without_rows(Quantized q);

}  // namespace binade::ops
