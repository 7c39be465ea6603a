#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "binade/tensor/tensor.h"

// Tensors of two programs, whose axes may lie in another order, compared by value.
namespace binade::lab {

// A tensor's elements in row-major order.
struct Values {
  Shape shape;
  std::vector<float> elements;
  double norm = 0;  // of the finite elements

  int64_t count() const { return static_cast<int64_t>(elements.size()); }
  double rms() const;
};

Values values_of(const Tensor& x);
// The columns from `begin` to `end` of a tensor, seen as rows of `width` columns.
Values columns_of(const Values& x, int64_t width, int64_t begin, int64_t end);

// How far two tensors are from each other, or may be: the root of the mean square, and the largest.
struct Distance {
  double rms = 0, largest = 0;

  bool within(const Distance& limit) const { return rms <= limit.rms && largest <= limit.largest; }
  // The fraction of a limit that it is.
  double share_of(const Distance& limit) const;
};

// Axes of `y` in the order that makes its elements those of `x`; empty: as they are.
using AxisOrder = std::vector<int>;

// The elements of `y` in another order of its axes.
std::vector<float> reordered(const Values& y, const AxisOrder& order);
// The index of an element by its number in row-major order.
Shape element_index(const Shape& shape, int64_t element);

// Two NaN, or equal infinities, are no distance apart.
double distance_of(float x, float y);
Distance distance_of(const std::vector<float>& x, const std::vector<float>& y);

// How far the norm of a tensor that is within `limit` of x may be from that of x; infinite if x has
// elements that are not finite.
double norm_limit(const Values& x, const Distance& limit);
// The order of axes in which `y`, of as many elements, is within `limit` of `x`, if there is one.
std::optional<AxisOrder> matching_order(const Values& x, const Values& y, const Distance& limit);
// The order in which `y` is nearest to `x`, of those that leave the last axis where it is.
AxisOrder nearest_order(const Values& x, const Values& y);

}  // namespace binade::lab
