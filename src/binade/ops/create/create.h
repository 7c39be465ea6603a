#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "binade/base/random.h"
#include "binade/ops/create/options.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/tensor/tensor.h"

namespace binade {

// New tensors. They are leaves without a gradient.
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
Tensor full(const Shape& shape, double value, DType dtype = DType::f32,
            Device device = Device::cpu());
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);
// 0, 1, ..., count - 1.
Tensor arange(int64_t count, DType dtype = DType::i64, Device device = Device::cpu());
// first, first + step, ... before `last`; step may be negative. i64 of integers, else f32, unless a
// type is named.
Tensor arange(Scalar first, Scalar last, Scalar step = 1, std::optional<DType> dtype = {},
              Device device = Device::cpu());
inline Tensor arange(Scalar first, Scalar last, DType dtype, Device device = Device::cpu()) {
  return arange(first, last, 1, dtype, device);
}
// `count` numbers from first to last at equal distances; both ends are exact.
Tensor linspace(double first, double last, int64_t count, DType dtype = DType::f32,
                Device device = Device::cpu());
// [rows, columns] with ones on the diagonal; square without `columns`.
Tensor eye(int64_t rows, std::optional<int64_t> columns = {}, DType dtype = DType::f32,
           Device device = Device::cpu());
// Standard normal, or uniform in [0, 1), as a pure function of the key and the element's index.
Tensor randn(const Shape& shape, random::Key key, DType dtype = DType::f32,
             Device device = Device::cpu());
Tensor rand(const Shape& shape, random::Key key, DType dtype = DType::f32,
            Device device = Device::cpu());
// Integers in [low, high), i64.
Tensor randint(int64_t low, int64_t high, const Shape& shape, random::Key key,
               Device device = Device::cpu());
// 0 to count - 1 in random order, i64.
Tensor randperm(int64_t count, random::Key key, Device device = Device::cpu());
// Random tensors with the next key of this thread, random::next_key(): other numbers at each call,
// and the same sequence after random::begin_step(seed, 0).
Tensor randn(const Shape& shape, std::optional<DType> dtype = {}, Device device = Device::cpu());
Tensor rand(const Shape& shape, std::optional<DType> dtype = {}, Device device = Device::cpu());
inline Tensor randn(const Shape& shape, DType dtype) { return randn(shape, std::optional(dtype)); }
inline Tensor rand(const Shape& shape, DType dtype) { return rand(shape, std::optional(dtype)); }
Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device = Device::cpu());
Tensor randperm(int64_t count, Device device = Device::cpu());

// From values in row-major order, converted to `dtype`.
Tensor tensor(std::span<const double> values, const Shape& shape, DType dtype = DType::f32,
              Device device = Device::cpu());
Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype = DType::f32,
              Device device = Device::cpu());
Tensor tensor(std::span<const int64_t> values, const Shape& shape, Device device = Device::cpu());

// `shape` has as many elements as there are values.
template <class T>
Tensor tensor_of(std::span<const T> values, const Shape& shape, DType dtype, Device device) {
  if constexpr (std::is_integral_v<T>) {  // exact beyond 2^53, too
    const std::vector<int64_t> wide(values.begin(), values.end());
    if (dtype == DType::i64) return tensor(std::span<const int64_t>(wide), shape, device);
  }
  const std::vector<double> wide(values.begin(), values.end());
  return tensor(std::span<const double>(wide), shape, dtype, device);
}

template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;

template <Arithmetic T>
constexpr DType default_dtype = std::is_same_v<T, bool> ? DType::boolean
                                : std::is_integral_v<T> ? DType::i64
                                                        : DType::f32;

inline TensorOptions on(DType dtype, Device device) { return TensorOptions(dtype).device(device); }
inline TensorOptions on(const TensorOptions& options, Device) { return options; }
[[noreturn]] void refuse_ragged_list(const Shape& first, const Shape& other);

// A list of lists as its values in order and its shape. The lists in it have one length.
template <Arithmetic T>
struct NestedValues {
  using Value = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;  // no vector<bool>
  std::vector<Value> values;
  Shape shape;

  explicit NestedValues(std::initializer_list<T> list)
      : values(list.begin(), list.end()), shape{static_cast<int64_t>(list.size())} {}
  template <class List>
  explicit NestedValues(std::initializer_list<List> lists) {
    for (const List& list : lists) {
      const NestedValues part(list);
      if (values.empty()) shape = part.shape;
      if (part.shape != shape) refuse_ragged_list(shape, part.shape);
      values.insert(values.end(), part.values.begin(), part.values.end());
    }
    shape.insert(0, static_cast<int64_t>(lists.size()));
  }
};

// A scalar, tensor(3.0), a vector, tensor({1, 2, 3}), or rows, tensor({{1, 2}, {3, 4}}): i64 of
// integers, bool of bools, else f32, unless a type is named. The type's parameter is a template's,
// so that {} stays an empty shape.
template <class D>
concept TypeOrOptions = std::same_as<D, DType> || std::same_as<D, TensorOptions>;
template <Arithmetic T, Arithmetic Value = T>
Tensor tensor_with(std::span<const Value> values, const Shape& shape,
                   const TensorOptions& options) {
  const DType dtype = options.dtype_or(default_dtype<T>);
  return options.applied(tensor_of(values, shape, dtype, options.device()));
}
template <Arithmetic T>
Tensor tensor(T value) {
  return tensor_with<T>(std::span<const T>(&value, 1), {}, {});
}
template <Arithmetic T, TypeOrOptions D>
Tensor tensor(T value, D options, Device device = Device::cpu()) {
  return tensor_with<T>(std::span<const T>(&value, 1), {}, on(options, device));
}
template <Arithmetic T>
Tensor tensor(std::initializer_list<T> values) {
  return tensor(values, TensorOptions());
}
template <Arithmetic T, TypeOrOptions D>
Tensor tensor(std::initializer_list<T> values, D options, Device device = Device::cpu()) {
  return tensor_with<T>(std::span<const T>(values.begin(), values.size()),
                        {static_cast<int64_t>(values.size())}, on(options, device));
}
template <Arithmetic T, TypeOrOptions D = TensorOptions>
Tensor tensor(std::initializer_list<std::initializer_list<T>> values, D options = {},
              Device device = Device::cpu()) {
  const NestedValues<T> nested(values);
  return tensor_with<T>(std::span(nested.values), nested.shape, on(options, device));
}
template <Arithmetic T, TypeOrOptions D = TensorOptions>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> values,
              D options = {}, Device device = Device::cpu()) {
  const NestedValues<T> nested(values);
  return tensor_with<T>(std::span(nested.values), nested.shape, on(options, device));
}
template <Arithmetic T, TypeOrOptions D = TensorOptions>
Tensor tensor(const std::vector<T>& values, D options = {}, Device device = Device::cpu()) {
  return tensor_with<T>(std::span<const T>(values), {static_cast<int64_t>(values.size())},
                        on(options, device));
}

// All values in row-major order, from any device.
std::vector<double> to_vector(const Tensor& x);

}  // namespace binade
