#pragma once

#include "binade/backend/backend.h"

// The CPU's kernel tables, each defined in the file named like its header.
namespace binade::backend::cpu {

extern const ElementwiseKernels elementwise_kernels;
extern const ReduceKernels reduce_kernels;
extern const ScanKernels scan_kernels;
extern const IndexKernels index_kernels;
extern const MatmulKernels matmul_kernels;
extern const ConvKernels conv_kernels;
extern const PoolKernels pool_kernels;
extern const NormKernels norm_kernels;
extern const SoftmaxKernels softmax_kernels;
extern const AttentionKernels attention_kernels;
extern const ActivationKernels activation_kernels;
extern const LossKernels loss_kernels;
extern const OptimizerKernels optimizer_kernels;
extern const ScalerKernels scaler_kernels;
extern const QuantizeKernels quantize_kernels;

}  // namespace binade::backend::cpu
