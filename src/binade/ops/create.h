#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "binade/base/random.h"
#include "binade/tensor/tensor.h"

namespace binade {

// New tensors. They are leaves without a gradient.
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
Tensor full(const Shape& shape, double value, DType dtype = DType::f32,
            Device device = Device::cpu());
Tensor zeros_like(const Tensor& x);
// 0, 1, ..., count - 1.
Tensor arange(int64_t count, DType dtype = DType::i64, Device device = Device::cpu());
// Standard normal, or uniform in [0, 1), as a pure function of the key and the element's index.
Tensor randn(const Shape& shape, random::Key key, DType dtype = DType::f32,
             Device device = Device::cpu());
Tensor rand(const Shape& shape, random::Key key, DType dtype = DType::f32,
            Device device = Device::cpu());
// Integers in [low, high), i64.
Tensor randint(int64_t low, int64_t high, const Shape& shape, random::Key key,
               Device device = Device::cpu());

// From values in row-major order, converted to `dtype`.
Tensor tensor(std::span<const double> values, const Shape& shape, DType dtype = DType::f32,
              Device device = Device::cpu());
Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype = DType::f32,
              Device device = Device::cpu());
Tensor tensor(std::span<const int64_t> values, const Shape& shape, Device device = Device::cpu());
// All values in row-major order, from any device.
std::vector<double> to_vector(const Tensor& x);

}  // namespace binade
