#include "binade/backend/cuda/matmul/fused_backward.h"

#include <algorithm>

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/matmul/hopper_epilogue.cuh"
#include "binade/backend/cuda/matmul/hopper_matmul.cuh"

namespace binade::backend::cuda {
namespace {

using fused::Tile;

template <class T, class E>
void run(const TensorView& a, const TensorView& b, const E& epilogue) {
  constexpr auto order = fused::Order::k_by_n;
  if (fused::has_long_sums(a.shape[1]))
    fused::run<T, order, fused::Processor<E, fused::ThreeProcess>>(a, b, epilogue);
  else
    fused::run<T, order, fused::Processor<E, fused::SevenProcess>>(a, b, epilogue);
}

template <class T>
void run_gelu(const TensorView& a, const TensorView& b, const ActivationBackward& args) {
  const int64_t rows = a.shape[0] / Tile::rows, width = b.shape[1];
  const Tensor sums = args.dbias.present() ? workspace({rows, width}, DType::f32) : Tensor();
  run<T>(a, b,
         fused::GeluBackward<T>{
             .x = args.pre_activation.as<const T>(),
             .dx = args.dx.as<T>(),
             .y = args.y.present ? args.y.as<T>() : nullptr,
             .sums = sums.defined() ? static_cast<float*>(sums.raw_data()) : nullptr,
             .pitch = static_cast<int>(width)});
  if (!sums.defined()) return;
  Target dbias = args.dbias;
  dbias.view.shape = {1, width};
  dbias.view.strides = {width, args.dbias.view.strides[0]};
  reduce_kernels.reduce(Reduction::sum, sums, dbias);
}

template <class T>
void run_swiglu(const TensorView& a, const TensorView& b, const SwiGluBackward& args) {
  run<T>(a, b,
         fused::SwiGluBackwardTile<T>{.x = args.x.as<const T>(),
                                      .dx = args.dx.as<T>(),
                                      .y = args.y.present ? args.y.as<T>() : nullptr,
                                      .sums = nullptr,
                                      .pitch = static_cast<int>(args.x.shape[1])});
}

// Whether a matmul takes a, b and other matrices.
bool supports(const TensorView& a, const TensorView& b,
              std::initializer_list<const TensorView*> matrices) {
  return has_hopper_kernels() && fused::has_whole_tiles(a.shape[0], b.shape[1], a.shape[1]) &&
         fused::is_uniform(a, {&a, &b}) && fused::is_uniform(a, matrices);
}

bool supports_activation(const MatmulBefore<ActivationBackward>& call) {
  const ActivationBackward& args = call.backward;
  return args.activation == Activation::gelu_tanh &&
         supports(call.a, call.b, {&args.pre_activation, &args.dx, &args.y});
}

void run_activation(const MatmulBefore<ActivationBackward>& call) {
  call.a.dtype == DType::f16 ? run_gelu<f16>(call.a, call.b, call.backward)
                             : run_gelu<bf16>(call.a, call.b, call.backward);
}

bool supports_swiglu(const MatmulBefore<SwiGluBackward>& call) {
  return supports(call.a, call.b, {&call.backward.x, &call.backward.dx, &call.backward.y});
}

void run_swiglu(const MatmulBefore<SwiGluBackward>& call) {
  call.a.dtype == DType::f16 ? run_swiglu<f16>(call.a, call.b, call.backward)
                             : run_swiglu<bf16>(call.a, call.b, call.backward);
}

}  // namespace

const FusedKernel<MatmulBefore<ActivationBackward>> fused_activation_backward{
    .supports = supports_activation, .run = run_activation};
const FusedKernel<MatmulBefore<SwiGluBackward>> fused_swiglu_backward{.supports = supports_swiglu,
                                                                      .run = run_swiglu};

}  // namespace binade::backend::cuda
