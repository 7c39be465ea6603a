#include "binade/backend/cuda/step/scalars.h"

#include <algorithm>

#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/cuda/common/multi_tensor.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int scalars_at_once = 256;

// Addresses as kernel parameters, as in TensorList.
struct ScalarList {
  void* data[scalars_at_once];
  DType dtype[scalars_at_once];
  double* numbers;
};
static_assert(sizeof(ScalarList) <= parameter_bytes);

__global__ void collect_kernel(const __grid_constant__ ScalarList a) {
  const unsigned i = threadIdx.x;
  switch (a.dtype[i]) {
    case DType::f64:
      a.numbers[i] = *static_cast<const double*>(a.data[i]);
      break;
    case DType::f32:
      a.numbers[i] = *static_cast<const float*>(a.data[i]);
      break;
    default:
      a.numbers[i] = *static_cast<const int32_t*>(a.data[i]);
  }
}

__global__ void distribute_kernel(const __grid_constant__ ScalarList a) {
  const unsigned i = threadIdx.x;
  switch (a.dtype[i]) {
    case DType::f64:
      *static_cast<double*>(a.data[i]) = a.numbers[i];
      break;
    case DType::f32:
      *static_cast<float*>(a.data[i]) = static_cast<float>(a.numbers[i]);
      break;
    default:
      *static_cast<int32_t*>(a.data[i]) = static_cast<int32_t>(a.numbers[i]);
  }
}

void run_on_scalars(void (*kernel)(ScalarList), std::span<const TensorView> scalars,
                    const TensorView& numbers) {
  for (size_t first = 0; first < scalars.size(); first += scalars_at_once) {
    const size_t count = std::min<size_t>(scalars_at_once, scalars.size() - first);
    ScalarList list{.numbers = numbers.as<double>() + first};
    for (size_t i = 0; i < count; ++i) {
      list.data[i] = scalars[first + i].data;
      list.dtype[i] = scalars[first + i].dtype;
    }
    launch(kernel, 1, static_cast<unsigned>(count), 0, list);
  }
}

}  // namespace

void collect(std::span<const TensorView> scalars, TensorView numbers) {
  run_on_scalars(collect_kernel, scalars, numbers);
}

void distribute(TensorView numbers, std::span<const TensorView> scalars) {
  run_on_scalars(distribute_kernel, scalars, numbers);
}

}  // namespace binade::backend::cuda
