#include "binade/tensor/shape.h"

#include <algorithm>

#include "binade/base/error.h"

namespace binade {

Shape::Shape(std::initializer_list<int64_t> values)
    : Shape(std::span(values.begin(), values.size())) {}

Shape::Shape(std::span<const int64_t> values) {
  for (const int64_t value : values) push_back(value);
}

Shape Shape::filled(int rank, int64_t value) {
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) shape.push_back(value);
  return shape;
}

void Shape::refuse(int axis) const {
  fail("shape",
       {.argument = "axis",
        .expected = rank_ == 0 ? "no axis: this is the shape of a scalar"
                               : "0 to " + std::to_string(rank_ - 1) + " for " + to_string(*this),
        .found = std::to_string(axis)});
}

void Shape::push_back(int64_t value) { insert(rank_, value); }

void Shape::insert(int axis, int64_t value) {
  if (rank_ == max_rank) {
    fail("shape", {.argument = "rank",
                   .expected = "at most " + std::to_string(max_rank),
                   .found = std::to_string(rank_ + 1)});
  }
  std::move_backward(begin() + axis, end(), end() + 1);
  ++rank_;
  (*this)[axis] = value;
}

void Shape::erase(int axis) {
  std::move(begin() + axis + 1, end(), begin() + axis);
  --rank_;
}

int64_t Shape::numel() const {
  int64_t count = 1;
  bool overflows = false;
  for (const int64_t size : *this) {
    if (size == 0) return 0;
    overflows |= __builtin_mul_overflow(count, size, &count);
  }
  if (overflows)
    fail("shape",
         {.argument = "sizes", .expected = "fewer than 2^63 elements", .found = to_string(*this)});
  return count;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

Strides dense_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= std::max<int64_t>(shape[axis], 1);
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  const int offset = longer.rank() - shorter.rank();
  for (int axis = 0; axis < shorter.rank(); ++axis) {
    int64_t& size = result[axis + offset];
    if (size == shorter[axis] || shorter[axis] == 1) continue;
    if (size != 1) {
      fail(op, {.argument = "operands",
                .expected = "shapes that broadcast",
                .found = to_string(a) + " and " + to_string(b)});
    }
    size = shorter[axis];
  }
  return result;
}

int normalize_axis(const char* op, int64_t axis, int rank) {
  const int64_t positive = axis < 0 ? axis + rank : axis;
  if (positive < 0 || positive >= rank) {
    fail(op, {.argument = "axis",
              .expected = "an axis of a tensor with " + std::to_string(rank) + " dimensions",
              .found = std::to_string(axis)});
  }
  return static_cast<int>(positive);
}

}  // namespace binade
