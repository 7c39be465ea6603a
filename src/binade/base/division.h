#pragma once

#include <cstdint>

namespace binade {

// Of numbers from 0 on; `unit` is above 0.
constexpr int64_t divide_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
constexpr int64_t round_down(int64_t n, int64_t unit) { return n / unit * unit; }
constexpr int64_t round_up(int64_t n, int64_t unit) { return divide_up(n, unit) * unit; }

}  // namespace binade
