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
bool run(const TensorView& a, const TensorView& b, const E& epilogue) {
  constexpr auto order = fused::Order::k_by_n;
  if (fused::has_long_sums(a.shape[1]))
    return fused::run<T, order, fused::Processor<E, fused::ThreeProcess>>(a, b, epilogue);
  return fused::run<T, order, fused::Processor<E, fused::SevenProcess>>(a, b, epilogue);
}

template <class T>
bool run_gelu(const TensorView& a, const TensorView& b, const ActivationBackward& args) {
  const int64_t rows = a.shape[0] / Tile::rows, width = b.shape[1];
  const Tensor sums = args.dbias.present() ? workspace({rows, width}, DType::f32) : Tensor();
  const fused::GeluBackward<T> epilogue{
      .x = args.pre_activation.as<const T>(),
      .dx = args.dx.as<T>(),
      .y = args.y.present ? args.y.as<T>() : nullptr,
      .sums = sums.defined() ? static_cast<float*>(sums.raw_data()) : nullptr,
      .pitch = static_cast<int>(width)};
  if (!run<T>(a, b, epilogue)) return false;
  if (!sums.defined()) return true;
  Target dbias = args.dbias;
  dbias.view.shape = {1, width};
  dbias.view.strides = {width, args.dbias.view.strides[0]};
  reduce_kernels.reduce(Reduction::sum, sums, dbias);
  return true;
}

template <class T>
bool run_swiglu(const TensorView& a, const TensorView& b, const SwiGluBackward& args) {
  return run<T>(a, b,
                fused::SwiGluBackwardTile<T>{.x = args.x.as<const T>(),
                                             .dx = args.dx.as<T>(),
                                             .y = args.y.present ? args.y.as<T>() : nullptr,
                                             .sums = nullptr,
                                             .pitch = static_cast<int>(args.x.shape[1])});
}

}  // namespace

bool fused_activation_backward(const TensorView& a, const TensorView& b,
                               const ActivationBackward& args) {
  if (!has_hopper_kernels() || args.activation != Activation::gelu_tanh ||
      !fused::has_whole_tiles(a.shape[0], b.shape[1], a.shape[1]) ||
      !fused::is_uniform(a, {&a, &b, &args.pre_activation, &args.dx, &args.y}))
    return false;
  return a.dtype == DType::f16 ? run_gelu<f16>(a, b, args) : run_gelu<bf16>(a, b, args);
}

bool fused_swiglu_backward(const TensorView& a, const TensorView& b, const SwiGluBackward& args) {
  if (!has_hopper_kernels() || !fused::has_whole_tiles(a.shape[0], b.shape[1], a.shape[1]) ||
      !fused::is_uniform(a, {&a, &b, &args.x, &args.dx, &args.y}))
    return false;
  return a.dtype == DType::f16 ? run_swiglu<f16>(a, b, args) : run_swiglu<bf16>(a, b, args);
}

}  // namespace binade::backend::cuda
