#pragma once

#include <ostream>
#include <string>

#include "binade/tensor/tensor.h"

namespace binade {

// The values as nested rows, shortened as NumPy does (the first and last 3 of an axis if there are
// more than 1000 elements), with describe(x) below. Waits for a GPU.
std::string to_text(const Tensor& x);
std::ostream& operator<<(std::ostream& out, const Tensor& x);
inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << to_string(shape);
}

}  // namespace binade
