#pragma once

#include "binade/backend/matmul.h"

namespace binade::backend::cuda {

// y = gelu(x) in its tanh form, x = a b + bias, in one kernel for GPUs of compute capability 9.0:
// f16 and bf16, batches of one, dense matrices of whole tiles. epilogue.pre_activation, which must
// be present, becomes x, and y is the GELU of the rounded x. False, with nothing written, if the
// kernel does not support such arguments or the active device.
bool fused_gelu(const TensorView& a, const TensorView& b, const TensorView& y,
                const Epilogue& epilogue);

// For the same GPUs, types and matrices, and sums of 2048 products or more: see matmul_swiglu.
bool fuses_swiglu(const LinearSwiGlu& args);
void fused_swiglu(const LinearSwiGlu& args);

}  // namespace binade::backend::cuda
