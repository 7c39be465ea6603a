#pragma once

#include "binade/backend/matmul.h"
#include "binade/tensor/quantized.h"

// Products of quantized matrices, for the ops that run linears in FP8. Not part of the public
// interface.
namespace binade::ops {

// One operand of a product: FP8 with its scales, which lie along the summed axis, or values.
struct Operand {
  Tensor matrix;
  Tensor inverse_scale = {};
  ScaleGroup group = {};
};

Operand operand(const Quantized& q);
// The same as a product reads it that sums along q's rows rather than its columns: from the
// transposed codes where there are any, so that neighbours in the sum are neighbours in memory.
Operand operand_along_rows(const Quantized& q);

Tensor transposed(const Tensor& matrix);
Operand transposed(const Operand& x);

// y = a x b with f32 sums, plus what y holds if `accumulate`.
void multiply(const Operand& a, const Operand& b, const Tensor& y, bool accumulate,
              backend::Epilogue epilogue = {});

// A matrix as kernels take it: a batch of one.
Tensor batch_of_one(const Tensor& x);

// q as wgrad alone needs it.
Quantized kept_for_wgrad(Quantized q);

}  // namespace binade::ops
