#pragma once

#include <cmath>

#include "backend/cpu/values.h"
#include "binade/base/random.h"

namespace binade::backend {

// Uniform numbers of variance 1: millions of normal ones would take seconds.
inline Tensor spread(const Shape& shape, DType dtype, uint64_t seed) {
  Values values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (random::uniform(seed, 1, i) - 0.5) * std::sqrt(12.0);
  return make(shape, dtype, values);
}

}  // namespace binade::backend
