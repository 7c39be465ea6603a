#pragma once

#include <cmath>
#include <numbers>

#include "binade/backend/elementwise.h"

// The functions of elementwise kernels on single values: float, double and, where they map integers
// to integers, int64_t. Where `op` is known when a kernel is compiled, the switch is gone.
namespace binade::backend::cuda {

template <class T>
__device__ inline T sign(T x) {
  return x != x || x == 0 ? x : std::copysign(T(1), x);
}

template <class T>
__device__ inline T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// (1 + tanh(u)) / 2 = sigmoid(2u), u being the tanh form of GELU's argument.
inline constexpr double gelu_slope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
inline constexpr double gelu_cubic = 0.044715;

template <class T>
__device__ inline T gelu_tanh_gate(T x) {
  return sigmoid(x * (T(gelu_slope) + T(gelu_slope * gelu_cubic) * (x * x)));
}

// log(1 + exp(x)) where neither overflows nor loses small results.
template <class T>
__device__ inline T softplus(T x) {
  return (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::fabs(x)));
}

// x^exponent; the exponents people use need no logarithm.
__device__ inline float power(float x, float exponent) {
  if (exponent == 2) return x * x;
  if (exponent == 1) return x;
  if (exponent == 0) return 1;
  if (exponent == 3) return x * x * x;
  if (exponent == 0.5f) return std::sqrt(x);
  if (exponent == -1) return 1 / x;
  if (exponent == -2) return 1 / (x * x);
  if (exponent == -0.5f) return 1 / std::sqrt(x);
  return std::pow(x, exponent);
}
__device__ inline double power(double x, double exponent) { return std::pow(x, exponent); }

// clang-format off
template <class T>
__device__ inline T unary_value(Unary op, T x, T a, T b) {
  switch (op) {
    case Unary::neg: return -x;
    case Unary::abs: return std::fabs(x);
    case Unary::sign: return sign(x);
    case Unary::square: return x * x;
    case Unary::sqrt: return std::sqrt(x);
    case Unary::rsqrt: return 1 / std::sqrt(x);
    case Unary::reciprocal: return 1 / x;
    case Unary::exp: return std::exp(x);
    case Unary::expm1: return std::expm1(x);
    case Unary::log: return std::log(x);
    case Unary::log2: return std::log2(x);
    case Unary::log10: return std::log10(x);
    case Unary::log1p: return std::log1p(x);
    case Unary::sin: return std::sin(x);
    case Unary::cos: return std::cos(x);
    case Unary::tan: return std::tan(x);
    case Unary::asin: return std::asin(x);
    case Unary::acos: return std::acos(x);
    case Unary::atan: return std::atan(x);
    case Unary::sinh: return std::sinh(x);
    case Unary::cosh: return std::cosh(x);
    case Unary::tanh: return std::tanh(x);
    case Unary::erf: return std::erf(x);
    case Unary::erfinv: return ::erfinv(x);
    case Unary::sigmoid: return sigmoid(x);
    case Unary::relu: return x <= 0 ? T(0) : x;
    case Unary::leaky_relu: return x > 0 ? x : a * x;
    case Unary::gelu: return x * ::normcdf(x);
    case Unary::gelu_tanh: return x * gelu_tanh_gate(x);
    case Unary::silu: return x * sigmoid(x);
    case Unary::softplus: return softplus(x);
    case Unary::pow: return power(x, a);
    case Unary::clamp: return x != x ? x : std::fmin(std::fmax(x, a), b);
    case Unary::scale: return std::fma(x, a, b);
    case Unary::floor: return std::floor(x);
    case Unary::ceil: return std::ceil(x);
    case Unary::round: return std::rint(x);
    case Unary::trunc: return std::trunc(x);
    case Unary::is_finite: return std::fabs(x) < T(INFINITY) ? 1 : 0;
    case Unary::is_nan: return x != x ? 1 : 0;
    case Unary::is_inf: return std::fabs(x) == T(INFINITY) ? 1 : 0;
    case Unary::logical_not: return x == 0 ? 1 : 0;
  }
  return x;
}

// g times the derivative at s, which is the input or, where saves_output(op), the output.
template <class T>
__device__ inline T gradient_value(Unary op, T g, T s, T a, T b) {
  constexpr T half_sqrt_pi = T(0.5 / std::numbers::inv_sqrtpi);
  constexpr T two_over_sqrt_pi = T(2 * std::numbers::inv_sqrtpi);
  switch (op) {
    // From the output.
    case Unary::sqrt: return g * T(0.5) / s;
    case Unary::rsqrt: return g * (T(-0.5) * s * s * s);
    case Unary::reciprocal: return -g * (s * s);
    case Unary::exp: return g * s;
    case Unary::expm1: return g * (s + 1);
    case Unary::tan: return g * (1 + s * s);
    case Unary::tanh: return g * ((1 - s) * (1 + s));
    case Unary::sigmoid: return g * (s * (1 - s));
    case Unary::erfinv: return g * (half_sqrt_pi * std::exp(s * s));
    // From the input.
    case Unary::neg: return -g;
    case Unary::abs: return g * sign(s);
    case Unary::square: return g * (2 * s);
    case Unary::log: return g / s;
    case Unary::log2: return g * T(std::numbers::log2e) / s;
    case Unary::log10: return g * T(std::numbers::log10e) / s;
    case Unary::log1p: return g / (1 + s);
    case Unary::sin: return g * std::cos(s);
    case Unary::cos: return -g * std::sin(s);
    case Unary::asin: return g / std::sqrt((1 - s) * (1 + s));
    case Unary::acos: return -g / std::sqrt((1 - s) * (1 + s));
    case Unary::atan: return g / (1 + s * s);
    case Unary::sinh: return g * std::cosh(s);
    case Unary::cosh: return g * std::sinh(s);
    case Unary::erf: return g * (two_over_sqrt_pi * std::exp(-s * s));
    // A choice, since 0 times an infinite gradient would not be 0.
    case Unary::relu: return s <= 0 ? T(0) : g;
    case Unary::leaky_relu: return s > 0 ? g : g * a;
    case Unary::gelu: {
      constexpr T inv_sqrt_2pi = T(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
      return g * (::normcdf(s) + s * (inv_sqrt_2pi * std::exp(T(-0.5) * s * s)));
    }
    case Unary::gelu_tanh: {
      // Past 20 the derivative is 0 or 1; bounding x keeps its square finite.
      const T x = s != s ? s : std::fmin(std::fmax(s, T(-20)), T(20));
      const T gate = gelu_tanh_gate(x);
      const T slope = T(gelu_slope) + T(3 * gelu_slope * gelu_cubic) * (x * x);
      return g * (gate + gate * (x * slope * (1 - gate)));
    }
    case Unary::silu: {
      const T gate = sigmoid(s);
      return g * (gate + gate * (s * (1 - gate)));
    }
    case Unary::softplus: return g * sigmoid(s);
    case Unary::pow: return a == 0 ? T(0) : g * (a * power(s, a - 1));
    case Unary::clamp: return s >= a && s <= b ? g : T(0);
    case Unary::scale: return g * a;
    case Unary::sign: case Unary::floor: case Unary::ceil: case Unary::round: case Unary::trunc:
    case Unary::is_finite: case Unary::is_nan: case Unary::is_inf: case Unary::logical_not:
      return 0;
  }
  return 0;
}

template <class T>
__device__ inline T binary_value(Binary op, T l, T r) {
  switch (op) {
    case Binary::add: return l + r;
    case Binary::sub: return l - r;
    case Binary::mul: return l * r;
    case Binary::div: return l / r;
    case Binary::pow: return std::pow(l, r);
    case Binary::atan2: return std::atan2(l, r);
    case Binary::maximum: return l > r || l != l ? l : r;
    case Binary::minimum: return l < r || l != l ? l : r;
    case Binary::equal: return l == r ? 1 : 0;
    case Binary::not_equal: return l != r ? 1 : 0;
    case Binary::less: return l < r ? 1 : 0;
    case Binary::less_equal: return l <= r ? 1 : 0;
    case Binary::greater: return l > r ? 1 : 0;
    case Binary::greater_equal: return l >= r ? 1 : 0;
    case Binary::logical_and: return l != 0 && r != 0 ? 1 : 0;
    case Binary::logical_or: return l != 0 || r != 0 ? 1 : 0;
  }
  return l;
}

// ---- integers ----

// They wrap around, which unsigned arithmetic says.
__device__ inline int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
__device__ inline int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
__device__ inline int64_t wrapping_neg(int64_t a) {
  return static_cast<int64_t>(uint64_t{0} - static_cast<uint64_t>(a));
}

__device__ inline int64_t whole_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return base == 1 ? 1 : 0;
  }
  int64_t result = 1;
  for (; exponent > 0; exponent /= 2, base = wrapping_mul(base, base)) {
    if (exponent % 2 == 1) result = wrapping_mul(result, base);
  }
  return result;
}

// Only ops that map integers to integers come here; a and b are whole.
template <>
__device__ inline int64_t unary_value(Unary op, int64_t x, int64_t a, int64_t b) {
  switch (op) {
    case Unary::neg: return wrapping_neg(x);
    case Unary::abs: return x < 0 ? wrapping_neg(x) : x;
    case Unary::sign: return (x > 0) - (x < 0);
    case Unary::square: return wrapping_mul(x, x);
    case Unary::relu: return x > 0 ? x : 0;
    case Unary::is_finite: return 1;
    case Unary::is_nan: case Unary::is_inf: return 0;
    case Unary::logical_not: return x == 0 ? 1 : 0;
    case Unary::clamp: return x < a ? (a < b ? a : b) : (x < b ? x : b);
    case Unary::scale: return wrapping_add(wrapping_mul(a, x), b);
    default: return x;
  }
}

template <>
__device__ inline int64_t binary_value(Binary op, int64_t l, int64_t r) {
  switch (op) {
    case Binary::add: return wrapping_add(l, r);
    case Binary::sub: return wrapping_add(l, wrapping_neg(r));
    case Binary::mul: return wrapping_mul(l, r);
    case Binary::div: return r == 0 ? 0 : r == -1 ? wrapping_neg(l) : l / r;
    case Binary::pow: return whole_power(l, r);
    case Binary::maximum: return l > r ? l : r;
    case Binary::minimum: return l < r ? l : r;
    case Binary::equal: return l == r ? 1 : 0;
    case Binary::not_equal: return l != r ? 1 : 0;
    case Binary::less: return l < r ? 1 : 0;
    case Binary::less_equal: return l <= r ? 1 : 0;
    case Binary::greater: return l > r ? 1 : 0;
    case Binary::greater_equal: return l >= r ? 1 : 0;
    case Binary::logical_and: return l != 0 && r != 0 ? 1 : 0;
    case Binary::logical_or: return l != 0 || r != 0 ? 1 : 0;
    default: return 0;
  }
}
// clang-format on

}  // namespace binade::backend::cuda
