#include "binade/backend/cuda/conv/channels_last.h"

#include <algorithm>

#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/kernels.h"
#include "binade/tensor/memory_format.h"
#ifdef BINADE_CUDNN
#include "binade/backend/cuda/conv/cudnn.h"
#include "binade/backend/cuda/conv/space_to_depth.h"
#endif

namespace binade::backend::cuda {
namespace {

Tensor new_scratch(const Shape& shape, DType dtype, MemoryFormat format) {
  return empty(shape, dtype, device(), format);
}

// A copy of x in another format.
Tensor copy_in_format(const TensorView& x, MemoryFormat format) {
  Tensor copy = new_scratch(x.shape, x.dtype, format);
  elementwise_kernels.copy(x, copy);
  return copy;
}

Tensor row_major(const TensorView& x) { return copy_in_format(x, MemoryFormat::row_major); }

// Whether each output is a combination of the channels at one position.
bool is_pointwise(const TensorView& weight, const ConvGeometry& geometry) {
  const auto all = [](const auto& numbers, int64_t value) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [value](int64_t number) { return number == value; });
  };
  return geometry.groups == 1 && all(geometry.stride, 1) && all(geometry.padding, 0) &&
         weight.shape[0] * weight.shape[1] == weight.numel();
}

TensorView dense_matrix(TensorView x, int64_t rows, int64_t columns) {
  x.shape = {1, rows, columns};
  x.strides = {rows * columns, columns, 1};
  return x;
}

// Positions times channels.
TensorView as_rows(const TensorView& x) {
  return dense_matrix(x, x.numel() / x.shape[1], x.shape[1]);
}

TensorView weight_matrix(const TensorView& weight) {
  return dense_matrix(weight, weight.shape[0], weight.shape[1]);
}

#ifdef BINADE_CUDNN

// A weight as cuDNN takes it, with the channels of each tap together.
Tensor rearranged(const TensorView& weight) {
  return copy_in_format(weight, MemoryFormat::channels_last);
}

bool forward_by_cudnn(const ConvForward& call) {
  if (call.bias.present) return false;  // cuDNN would round before the bias is added
  if (!SpaceToDepth::applies(call.x, call.geometry))
    return cudnn::conv_forward(call.x, rearranged(call.weight), call.geometry, call.y);
  const SpaceToDepth blocks(call.x, call.weight, call.y, call.geometry);
  const Tensor x = new_scratch(blocks.x_shape, call.x.dtype, MemoryFormat::channels_last),
               weight = new_scratch(blocks.weight_shape, call.x.dtype, MemoryFormat::channels_last);
  blocks.fold_input(call.x, x);
  blocks.fold_weight(call.weight, weight);
  return cudnn::conv_forward(x, weight, {}, call.y);
}

bool backward_input_by_cudnn(const ConvBackwardInput& call) {
  // The gradient of a 16-bit leaf is f32, and its sums are not to be rounded before.
  if (call.bias.present || call.dx.dtype != call.dy.dtype) return false;
  const Tensor weight = rearranged(call.weight);
  if (!call.accumulate) return cudnn::conv_backward_input(call.dy, weight, call.geometry, call.dx);
  const Tensor added = new_scratch(call.dx.shape, call.dx.dtype, MemoryFormat::channels_last);
  if (!cudnn::conv_backward_input(call.dy, weight, call.geometry, added)) return false;
  elementwise_kernels.axpby(1, added, 1, call.dx);
  return true;
}

// cuDNN sums in f32 and rounds once to x's type: its engines for 16-bit tensors that write f32 are
// up to 30 times slower.
bool backward_weight_by_cudnn(const ConvBackwardWeight& call) {
  const DType dtype = call.x.dtype;
  if (!SpaceToDepth::applies(call.x, call.geometry)) {
    const Tensor gradient = new_scratch(call.dweight.shape, dtype, MemoryFormat::channels_last);
    if (!cudnn::conv_backward_weight(call.x, call.dy, call.geometry, gradient)) return false;
    elementwise_kernels.axpby(1, gradient, call.accumulate ? 1 : 0, call.dweight);
    return true;
  }
  const SpaceToDepth blocks(call.x, call.dweight, call.dy, call.geometry);
  const Tensor x = new_scratch(blocks.x_shape, dtype, MemoryFormat::channels_last),
               gradient = new_scratch(blocks.weight_shape, dtype, MemoryFormat::channels_last);
  blocks.fold_input(call.x, x);
  if (!cudnn::conv_backward_weight(x, call.dy, {}, gradient)) return false;
  blocks.unfold_weight_gradient(gradient, call.dweight, call.accumulate);
  return true;
}

#else

bool forward_by_cudnn(const ConvForward&) { return false; }
bool backward_input_by_cudnn(const ConvBackwardInput&) { return false; }
bool backward_weight_by_cudnn(const ConvBackwardWeight&) { return false; }

#endif

}  // namespace

void channels_last_forward(const ConvForward& call) {
  if (is_pointwise(call.weight, call.geometry)) {
    matmul_kernels.matmul(as_rows(call.x), transposed(weight_matrix(call.weight)), as_rows(call.y),
                          {.bias = call.bias});
    return;
  }
  if (forward_by_cudnn(call)) return;
  const Tensor x = row_major(call.x);
  const Tensor y = new_scratch(call.y.shape, call.y.dtype, MemoryFormat::row_major);
  conv_kernels.forward(
      {.x = x, .weight = call.weight, .bias = call.bias, .geometry = call.geometry, .y = y});
  elementwise_kernels.copy(y, call.y);
}

void channels_last_backward_input(const ConvBackwardInput& call) {
  if (is_pointwise(call.weight, call.geometry)) {
    matmul_kernels.matmul(as_rows(call.dy), weight_matrix(call.weight), as_rows(call.dx),
                          {.beta = call.accumulate ? 1.0f : 0.0f, .bias = call.bias});
    return;
  }
  if (backward_input_by_cudnn(call)) return;
  const Tensor dy = row_major(call.dy);
  const Tensor dx = new_scratch(call.dx.shape, call.dx.dtype, MemoryFormat::row_major);
  conv_kernels.backward_input(
      {.dy = dy, .weight = call.weight, .bias = call.bias, .geometry = call.geometry, .dx = dx});
  elementwise_kernels.axpby(1, dx, call.accumulate ? 1 : 0, call.dx);
}

void channels_last_backward_weight(const ConvBackwardWeight& call) {
  if (is_pointwise(call.dweight, call.geometry)) {
    matmul_kernels.matmul(transposed(as_rows(call.dy)), as_rows(call.x),
                          weight_matrix(call.dweight), {.beta = call.accumulate ? 1.0f : 0.0f});
    return;
  }
  if (backward_weight_by_cudnn(call)) return;
  const Tensor x = row_major(call.x), dy = row_major(call.dy);
  conv_kernels.backward_weight({.x = x,
                                .dy = dy,
                                .geometry = call.geometry,
                                .dweight = call.dweight,
                                .accumulate = call.accumulate});
}

}  // namespace binade::backend::cuda
