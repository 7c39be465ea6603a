#include "binade/backend/cuda/matmul/fused_forward.h"

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/matmul/hopper_forward.cuh"
#include "binade/backend/cuda/matmul/hopper_matmul.cuh"

namespace binade::backend::cuda {
namespace {

using fused::Order;

template <class T>
bool run_gelu(const TensorView& a, const TensorView& weight, const TensorView& y,
              const fused::RunOptions& options) {
  const fused::GeluForward<T> gelu{.y = y.as<T>(), .pitch = static_cast<int>(y.shape[1])};
  if (fused::has_long_sums(a.shape[1]))
    return fused::run<T, Order::n_by_k, fused::GeluProcessor<T, fused::ThreeProcess>>(
        a, weight, gelu, options);
  return fused::run<T, Order::n_by_k, fused::GeluProcessor<T, fused::SevenProcess>>(a, weight, gelu,
                                                                                    options);
}

template <class T>
bool run_swiglu(const LinearSwiGlu& args) {
  const int64_t width = args.y.shape[1];
  return fused::run<T, Order::n_by_k, fused::SwiGluProcessor<T>>(
      args.a, args.weight, {.y = args.y.as<T>(), .pitch = static_cast<int>(width)},
      {.bias = args.bias.present ? args.bias.data : nullptr, .results = args.x, .apart = width});
}

bool can_add(const TensorView& bias, DType dtype) {
  return !bias.present || (bias.dtype == dtype && bias.is_dense() && packs_fit<bf16, 2>(bias.data));
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
      !fused::is_uniform(left, {&left, &weight, &pre, &result}) || !can_add(bias, y.dtype))
    return false;
  const fused::RunOptions options{.bias = bias.present ? bias.data : nullptr, .results = pre};
  return y.dtype == DType::f16 ? run_gelu<f16>(left, weight, result, options)
                               : run_gelu<bf16>(left, weight, result, options);
}

bool fuses_swiglu(const LinearSwiGlu& args) {
  const int64_t k = args.a.shape[1];
  return has_hopper_kernels() && fused::has_long_sums(k) &&
         fused::has_whole_tiles(args.a.shape[0], args.weight.shape[0], k) &&
         fused::is_uniform(args.a, {&args.a, &args.weight, &args.x, &args.y}) &&
         can_add(args.bias, args.a.dtype);
}

void fused_swiglu(const LinearSwiGlu& args) {
  if (args.a.dtype == DType::f16 ? run_swiglu<f16>(args) : run_swiglu<bf16>(args)) return;
  matmul_kernels.matmul(batch_of_one(args.a), transposed(batch_of_one(args.weight)),
                        batch_of_one(args.x), {.bias = args.bias});
  activation_kernels.swiglu(args.x, args.y);
}

}  // namespace binade::backend::cuda
