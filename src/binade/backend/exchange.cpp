#include "binade/backend/exchange.h"

#include <cstring>

#include "binade/backend/backend.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/step/scalars.h"
#include "binade/backend/cuda/transfer.h"
#endif

namespace binade::backend {
namespace {

// Calls f with a scalar as a reference of its type.
template <class F>
void with_scalar(const TensorView& scalar, F f) {
  switch (scalar.dtype) {
    case DType::f64:
      return f(*scalar.as<double>());
    case DType::f32:
      return f(*scalar.as<float>());
    default:
      return f(*scalar.as<int32_t>());
  }
}

}  // namespace

void copy_bytes(Device device, std::byte* to, const std::byte* from, int64_t bytes) {
  if (to == nullptr || from == nullptr || bytes == 0) return;
#ifdef BINADE_CUDA
  if (device.is_cuda()) return cuda::copy_bytes(device, to, from, bytes);
#endif
  if (device.is_cpu()) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void collect(std::span<const TensorView> scalars, const Tensor& numbers) {
  of(numbers);  // activates a GPU
#ifdef BINADE_CUDA
  if (numbers.device().is_cuda()) return cuda::collect(scalars, numbers);
#endif
  if (!numbers.device().is_cpu()) return;
  auto* out = numbers.mutable_data<double>();
  for (const TensorView& scalar : scalars)
    with_scalar(scalar, [&](const auto& value) { *out++ = static_cast<double>(value); });
}

void distribute(const Tensor& numbers, std::span<const TensorView> scalars) {
  of(numbers);
#ifdef BINADE_CUDA
  if (numbers.device().is_cuda()) return cuda::distribute(numbers, scalars);
#endif
  if (!numbers.device().is_cpu()) return;
  const auto* in = numbers.data<double>();
  for (const TensorView& scalar : scalars) {
    with_scalar(scalar,
                [&](auto& value) { value = static_cast<std::decay_t<decltype(value)>>(*in++); });
  }
}

}  // namespace binade::backend
