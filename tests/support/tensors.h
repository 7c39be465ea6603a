#pragma once

#include "binade/ops/create/create.h"
#include "support/values.h"

// Small tensors for tests above the ops room.
namespace binade::test {

// A leaf that wants a gradient.
inline Tensor leaf(std::initializer_list<double> values, const Shape& shape,
                   DType dtype = DType::f32) {
  Tensor x = tensor(values, shape, dtype);
  x.set_requires_grad();
  return x;
}

// Normal draws of a stream of their own.
inline Tensor noise(const Shape& shape, uint64_t stream, DType dtype = DType::f32,
                    Device device = Device::cpu()) {
  return randn(shape, {2024, stream}, dtype, device);
}

inline Tensor noise_leaf(const Shape& shape, uint64_t stream, DType dtype = DType::f32,
                         Device device = Device::cpu()) {
  Tensor x = noise(shape, stream, dtype, device);
  x.set_requires_grad();
  return x;
}

}  // namespace binade::test
