#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "binade/formats/number.h"

namespace binade::backend {

namespace detail {

// x rounded to odd: a float that rounds to any smaller format as x itself does. If x is not a
// float, the result is the one below it in magnitude with its last bit set, which cannot become a
// tie.
BINADE_HD inline float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  const uint32_t away = std::fabs(static_cast<double>(nearest)) > std::fabs(x) ? 1 : 0;
  return formats::float_from_bits((formats::float_bits(nearest) - away) | 1);
}

BINADE_HD inline float round_to_odd(int64_t x) {
  constexpr int64_t exact = int64_t{1} << 53;
  constexpr int spare = 11;
  if (x > exact || x < -exact)
    x = ((x >> spare) | ((x & ((1 << spare) - 1)) != 0 ? 1 : 0)) << spare;
  return round_to_odd(static_cast<double>(x));
}

}  // namespace detail

// x in another element type. Floats round once, to nearest even. A float becomes an integer by
// truncation, saturated; NaN becomes 0. Integers wrap around to smaller types; bool is x != 0.
template <class To, class From>
BINADE_HD inline To cast(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_class_v<From>) {
    return cast<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_class_v<To>) {
    if constexpr (std::is_same_v<From, float>) {
      return To(x);
    } else if constexpr (std::is_same_v<From, double>) {
      return To(detail::round_to_odd(x));
    } else {
      return To(detail::round_to_odd(static_cast<int64_t>(x)));
    }
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    constexpr From above = static_cast<From>(uint64_t{1} << std::numeric_limits<To>::digits);
    if (!(x < above)) return x != x ? To{0} : std::numeric_limits<To>::max();
    if (x <= static_cast<From>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace binade::backend
