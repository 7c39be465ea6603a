#pragma once

#include "binade/backend/matmul.h"

// Kernels for the steps around a GEMM that cuBLASLt does not do.
namespace binade::backend::cuda {

// v = in + bias; pre = v; y = act(v). in, pre and y are [batch, m, n] of one type with dense rows
// and may be the same tensor; bias, dense [n] of the sums' type, and pre may be absent.
void finish(const TensorView& in, const TensorView& bias, const TensorView& pre,
            const TensorView& y, Activation activation);

// to [batch, columns, rows], dense, = from [batch, rows, columns] transposed; elements of one byte,
// from's rows dense.
void transpose_bytes(const TensorView& from, const TensorView& to);

// scalars (f32 or f64, [2]) = alpha * scale_a * scale_b, beta; an absent scale is 1.
void combine_scales(float alpha, const TensorView& scale_a, const TensorView& scale_b, float beta,
                    const TensorView& scalars);

}  // namespace binade::backend::cuda
