#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "binade/tensor/arguments.h"

namespace binade {

inline constexpr int max_rank = 8;

// A short list of sizes or strides, stored inline. Sizes are never negative.
class Shape {
 public:
  constexpr Shape() = default;
  Shape(std::initializer_list<int64_t> values);
  explicit Shape(std::span<const int64_t> values);
  Shape(const std::vector<int64_t>& values) : Shape(std::span(values)) {}  // NOLINT: as LibTorch's
  Shape(int64_t size) : Shape({size}) {}  // NOLINT: one axis; x.view(-1)
  // `rank` copies of `value`.
  static Shape filled(int rank, int64_t value);

  constexpr int rank() const { return rank_; }
  // Fails unless 0 <= axis < rank.
  constexpr int64_t operator[](int axis) const { return values_[checked(axis)]; }
  constexpr int64_t& operator[](int axis) { return values_[checked(axis)]; }
  constexpr const int64_t* begin() const { return values_.data(); }
  constexpr const int64_t* end() const { return values_.data() + rank_; }
  constexpr int64_t* begin() { return values_.data(); }
  constexpr int64_t* end() { return values_.data() + rank_; }
  constexpr int64_t front() const { return (*this)[0]; }
  constexpr int64_t back() const { return (*this)[rank_ - 1]; }

  void push_back(int64_t value);
  void insert(int axis, int64_t value);
  void erase(int axis);

  // Number of elements; 1 for a scalar.
  int64_t numel() const;
  // The sizes as a list; how many there are.
  std::vector<int64_t> vec() const { return {begin(), end()}; }
  size_t size() const { return static_cast<size_t>(rank_); }
  bool empty() const { return rank_ == 0; }
  int64_t at(int axis) const { return (*this)[axis]; }
  bool equals(const Shape& other) const { return *this == other; }

  bool operator==(const Shape& other) const;

 private:
  constexpr size_t checked(int axis) const {
    if (axis < 0 || axis >= rank_) refuse(axis);
    return static_cast<size_t>(axis);
  }
  [[noreturn]] void refuse(int axis) const;

  std::array<int64_t, max_rank> values_{};
  int rank_ = 0;
};

// Strides are signed; zero marks a broadcast axis.
using Strides = Shape;

inline Axes::Axes(const Shape& axes) : std::vector<int64_t>(axes.begin(), axes.end()) {}

// Row-major strides of a dense tensor.
Strides dense_strides(const Shape& shape);

// "[2, 3]".
std::string to_string(const Shape& shape);

// The shape two operands broadcast to; `op` names the caller in the error.
Shape broadcast(const char* op, const Shape& a, const Shape& b);

// Maps a possibly negative axis to 0 .. rank - 1; fails if it is out of range.
int normalize_axis(const char* op, int64_t axis, int rank);

}  // namespace binade
