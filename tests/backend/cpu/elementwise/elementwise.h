#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/layouts.h"
#include "binade/backend/cpu/kernels.h"

// What the tests of elementwise kernels share.
namespace binade::backend {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

inline const ElementwiseKernels& kernels() { return cpu::elementwise_kernels; }

// Distance from x to the next float.
inline double ulp_of(double x) {
  return x == 0 ? 0x1p-149 : std::max(std::ldexp(1.0, std::ilogb(x) - 23), 0x1p-149);
}

// What computing in f32 (or f64) and storing in dtype may cost.
inline double allowed(DType dtype, double ulps, double expected, double flush) {
  return ulps * sum_epsilon(dtype) * std::abs(expected) + 1.01 * storage_error(dtype, expected) +
         flush;
}

inline const Shape shapes[] = {{}, {1}, {7}, {3, 5}, {2, 3, 35}, {33, 65}, {0, 4}, {1, 1030}};

}  // namespace binade::backend
