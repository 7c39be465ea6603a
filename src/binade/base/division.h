#pragma once

#include <concepts>
#include <cstdint>

#include "binade/base/host_device.h"

namespace binade {

// Integer division and rounding for n >= 0 and unit > 0.
BINADE_HD constexpr int64_t divide_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
BINADE_HD constexpr int64_t round_down(int64_t n, int64_t unit) { return n / unit * unit; }
BINADE_HD constexpr int64_t round_up(int64_t n, int64_t unit) { return divide_up(n, unit) * unit; }
// Sizes in bytes may pass the range of int64_t when rounded up.
template <std::unsigned_integral T>
constexpr T round_up(T n, T unit) {
  return (n + unit - 1) / unit * unit;
}

}  // namespace binade
