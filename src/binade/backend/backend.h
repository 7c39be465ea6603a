#pragma once

#include "binade/backend/activation.h"
#include "binade/backend/attention.h"
#include "binade/backend/conv.h"
#include "binade/backend/elementwise.h"
#include "binade/backend/index.h"
#include "binade/backend/loss.h"
#include "binade/backend/loss_scaler.h"
#include "binade/backend/matmul.h"
#include "binade/backend/norm.h"
#include "binade/backend/optimizer.h"
#include "binade/backend/pool.h"
#include "binade/backend/quantize.h"
#include "binade/backend/reduce.h"
#include "binade/backend/scan.h"
#include "binade/backend/softmax.h"

namespace binade::backend {

// The kernels of a device: one table of functions per family. A backend fills each table in the
// file of the same stem: cpu/norm/norm.cpp, cuda/norm/norm.cu.
struct Backend {
  ElementwiseKernels elementwise;
  ReduceKernels reduce;
  ScanKernels scan;
  IndexKernels index;
  MatmulKernels matmul;
  ConvKernels conv;
  PoolKernels pool;
  NormKernels norm;
  SoftmaxKernels softmax;
  AttentionKernels attention;
  ActivationKernels activation;
  LossKernels loss;
  OptimizerKernels optimizer;
  ScalerKernels scaler;
  QuantizeKernels quantize;
  // Whether convolutions, batch norm and max pools have kernels for channels-last tensors. Without
  // them, ops make row-major copies.
  bool channels_last = false;
};

// The backend of a device. Fails if this build or machine does not support the device.
const Backend& of(Device device);
inline const Backend& of(const Tensor& tensor) { return of(tensor.device()); }

}  // namespace binade::backend
