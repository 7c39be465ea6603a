#include "binade/backend/cuda/matmul/fused_forward.h"

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/matmul/hopper_forward.cuh"
#include "binade/backend/cuda/matmul/hopper_matmul.cuh"

namespace binade::backend::cuda {
namespace {

using fused::Order;

template <class T>
void run_gelu(const TensorView& a, const TensorView& weight, const TensorView& y,
              const fused::RunOptions& options) {
  const fused::GeluForward<T> gelu{.y = y.as<T>(), .pitch = static_cast<int>(y.shape[1])};
  if (fused::has_long_sums(a.shape[1]))
    fused::run<T, Order::n_by_k, fused::GeluProcessor<T, fused::ThreeProcess>>(a, weight, gelu,
                                                                               options);
  else
    fused::run<T, Order::n_by_k, fused::GeluProcessor<T, fused::SevenProcess>>(a, weight, gelu,
                                                                               options);
}

template <class T>
void run_swiglu(const LinearSwiGlu& args) {
  const int64_t width = args.y.shape[1];
  fused::run<T, Order::n_by_k, fused::SwiGluProcessor<T>>(
      args.a, args.weight, {.y = args.y.as<T>(), .pitch = static_cast<int>(width)},
      {.bias = args.bias.present ? args.bias.data : nullptr, .results = args.x, .apart = width});
}

bool can_add(const TensorView& bias, DType dtype) {
  return !bias.present || (bias.dtype == dtype && bias.is_dense() && packs_fit<bf16, 2>(bias.data));
}

// The matrices of a batch of one.
struct GeluMatrices {
  TensorView a, weight, pre, y;

  explicit GeluMatrices(const MatmulCall& call)
      : a(only_matrix(call.a)),
        weight(only_matrix(transposed(call.b))),
        pre(only_matrix(call.epilogue.pre_activation)),
        y(only_matrix(call.y)) {}
};

bool supports_gelu(const MatmulCall& call) {
  const Epilogue& epilogue = call.epilogue;
  if (epilogue.activation != Activation::gelu_tanh || !epilogue.pre_activation.present ||
      epilogue.alpha != 1 || epilogue.beta != 0 || call.y.shape[0] != 1)
    return false;
  const GeluMatrices x(call);
  return has_hopper_kernels() &&
         fused::has_whole_tiles(x.a.shape[0], x.weight.shape[0], x.a.shape[1]) &&
         fused::is_uniform(x.a, {&x.a, &x.weight, &x.pre, &x.y}) &&
         can_add(epilogue.bias, x.y.dtype);
}

void run_gelu(const MatmulCall& call) {
  const GeluMatrices x(call);
  const TensorView& bias = call.epilogue.bias;
  const fused::RunOptions options{.bias = bias.present ? bias.data : nullptr, .results = x.pre};
  x.y.dtype == DType::f16 ? run_gelu<f16>(x.a, x.weight, x.y, options)
                          : run_gelu<bf16>(x.a, x.weight, x.y, options);
}

bool supports_swiglu(const LinearSwiGlu& args) {
  const int64_t k = args.a.shape[1];
  return has_hopper_kernels() && fused::has_long_sums(k) &&
         fused::has_whole_tiles(args.a.shape[0], args.weight.shape[0], k) &&
         fused::is_uniform(args.a, {&args.a, &args.weight, &args.x, &args.y}) &&
         can_add(args.bias, args.a.dtype);
}

void run_swiglu(const LinearSwiGlu& args) {
  args.a.dtype == DType::f16 ? run_swiglu<f16>(args) : run_swiglu<bf16>(args);
}

}  // namespace

const FusedKernel<MatmulCall> fused_gelu{.supports = supports_gelu, .run = run_gelu};
const FusedKernel<LinearSwiGlu> fused_swiglu{.supports = supports_swiglu, .run = run_swiglu};

}  // namespace binade::backend::cuda
