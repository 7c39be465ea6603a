#include "binade/backend/cuda/matmul/fused_forward.h"

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/matmul/hopper_forward.cuh"
#include "binade/backend/cuda/matmul/hopper_matmul.cuh"

namespace binade::backend::cuda {
namespace {

template <class T>
bool run_gelu(const TensorView& a, const TensorView& weight, const TensorView& pre,
              const TensorView& y, const TensorView& bias) {
  return fused::run<T, fused::Order::n_by_k, fused::ForwardProcessor<T>>(
      a, weight, {.y = y.as<T>(), .pitch = static_cast<int>(y.shape[1])},
      bias.present ? bias.data : nullptr, pre);
}

}  // namespace

bool fused_gelu(const TensorView& a, const TensorView& b, const TensorView& y,
                const Epilogue& epilogue) {
  const TensorView& bias = epilogue.bias;
  if (epilogue.activation != Activation::gelu_tanh || !epilogue.pre_activation.present ||
      epilogue.alpha != 1 || epilogue.beta != 0 || y.shape[0] != 1)
    return false;
  const TensorView left = only_matrix(a), weight = only_matrix(transposed(b)),
                   pre = only_matrix(epilogue.pre_activation), result = only_matrix(y);
  if (!has_hopper_kernels() ||
      !fused::has_whole_tiles(left.shape[0], weight.shape[0], left.shape[1]) ||
      !fused::is_uniform(left, {&left, &weight, &pre, &result}) ||
      (bias.present &&
       (bias.dtype != y.dtype || !bias.is_dense() || !packs_fit<bf16, 2>(bias.data))))
    return false;
  return y.dtype == DType::f16 ? run_gelu<f16>(left, weight, pre, result, bias)
                               : run_gelu<bf16>(left, weight, pre, result, bias);
}

}  // namespace binade::backend::cuda
