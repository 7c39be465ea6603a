#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <vector>

// Types of arguments of ops that are methods of Tensor, too.
namespace binade {

class Shape;

// The axes a reduction runs over; negative ones count from the back. Empty: all. One axis may stand
// for itself: sum(x, 1).
class Axes : public std::vector<int64_t> {
 public:
  Axes() = default;
  Axes(int64_t axis) : std::vector<int64_t>{axis} {}  // NOLINT: implicit, see above
  Axes(std::initializer_list<int64_t> axes) : std::vector<int64_t>(axes) {}
  Axes(const std::vector<int64_t>& axes) : std::vector<int64_t>(axes) {}  // NOLINT
  Axes(const Shape& axes);                                                // NOLINT: in shape.h
  // A flag in the place of axes, such as std(x, false), is a mistake.
  template <std::same_as<bool> Flag>
  Axes(Flag) = delete;
};

enum class Order : uint8_t { ascending, descending };
enum class Gelu : uint8_t { erf, tanh };

}  // namespace binade
