#pragma once

#include "binade/backend/cuda/common/fused_kernel.h"
#include "binade/backend/matmul.h"

// Matmuls and activations of their results in one kernel, for GPUs of compute capability 9.0: f16
// and bf16, dense matrices of whole tiles.
namespace binade::backend::cuda {

// y = a b with its epilogue.
struct MatmulCall {
  TensorView a, b, y;
  const Epilogue& epilogue;
};

// The tanh form of GELU, batches of one, with a pre-activation: y is the GELU of its rounded
// elements.
extern const FusedKernel<MatmulCall> fused_gelu;

// Sums of 2048 products or more.
extern const FusedKernel<LinearSwiGlu> fused_swiglu;

}  // namespace binade::backend::cuda
