#pragma once

#include <span>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/tensor/shape.h"
#include "ops/table/real.h"

namespace binade::optable {

// A row-major array of reference numbers.
struct Array {
  Shape shape;
  std::vector<Real> values;

  Array() = default;
  explicit Array(const Shape& shape) : shape(shape), values(static_cast<size_t>(shape.numel())) {}
  Array(const Shape& shape, std::vector<Real> values) : shape(shape), values(std::move(values)) {}

  int64_t size(int64_t axis) const {
    return shape[static_cast<int>(axis < 0 ? axis + shape.rank() : axis)];
  }
  int64_t numel() const { return static_cast<int64_t>(values.size()); }
  int64_t flat(const Shape& index) const;
  Real& operator()(const Shape& index) { return values[static_cast<size_t>(flat(index))]; }
  const Real& operator()(const Shape& index) const {
    return values[static_cast<size_t>(flat(index))];
  }
  Real& operator[](int64_t i) { return values[static_cast<size_t>(i)]; }
  const Real& operator[](int64_t i) const { return values[static_cast<size_t>(i)]; }
};

using Arrays = std::span<const Array>;

// Calls f with every index of a shape, in row-major order.
void for_each_index(const Shape& shape, FunctionRef<void(const Shape& index)> f);

// The element of `x` that an index of a wider shape broadcasts from.
const Real& broadcast_at(const Array& x, const Shape& index);

Shape broadcast_shape(const Shape& a, const Shape& b);

Array map(const Array& x, FunctionRef<Real(const Real&)> f);
Array zip(const Array& a, const Array& b, FunctionRef<Real(const Real&, const Real&)> f);

// f of all elements along `axes` (none: all of them), for each of the other indices.
Array reduce(const Array& x, const std::vector<int64_t>& axes, bool keep,
             FunctionRef<Real(std::span<const Real>)> f);
// f of each line along one axis, giving a line of the same length.
Array along(const Array& x, int64_t axis, FunctionRef<std::vector<Real>(std::span<const Real>)> f);

Array permuted(const Array& x, const std::vector<int64_t>& order);
inline Array reshaped(const Array& x, const Shape& shape) { return {shape, x.values}; }

}  // namespace binade::optable
