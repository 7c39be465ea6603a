#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/kernels.h"

namespace binade::backend::cuda {
namespace {

template <class C>
__global__ void __launch_bounds__(elementwise_threads)
    where_kernel(int64_t count, const __grid_constant__ AnyView condition,
                 const __grid_constant__ AnyView a, const __grid_constant__ AnyView b,
                 const __grid_constant__ AnyView y) {
  for (int64_t at = first_item(); at < count; at += item_step()) {
    const C selected = condition.load<bool>(at) ? a.load<C>(at) : b.load<C>(at);
    y.store(at, selected);
  }
}

template <class C>
void where_as(const TensorView& condition, const TensorView& a, const TensorView& b,
              const TensorView& y) {
  const int64_t count = y.numel();
  launch(where_kernel<C>, grid_for(count, elementwise_threads), elementwise_threads, 0, count,
         AnyView(condition), AnyView(a), AnyView(b), AnyView(y));
}

void where(TensorView condition, TensorView a, TensorView b, TensorView y) {
  if (y.numel() == 0) return;
  simplify({&condition, &a, &b, &y});
  if (is_integer(a.dtype) && is_integer(b.dtype)) return where_as<int64_t>(condition, a, b, y);
  with_floating_type(a.dtype == DType::f64 || b.dtype == DType::f64,
                     [&](auto tag) { where_as<typename decltype(tag)::type>(condition, a, b, y); });
}

}  // namespace

const ElementwiseKernels elementwise_kernels{
    .unary = unary,
    .unary_backward = unary_backward,
    .binary = binary,
    .where = where,
    .axpby = axpby,
    .copy = copy,
    .fill = fill,
};

}  // namespace binade::backend::cuda
