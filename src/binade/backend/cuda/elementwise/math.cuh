#pragma once

#include <cmath>
#include <numbers>

#include "binade/backend/elementwise.h"
#include "binade/backend/unary_dispatch.h"

// The functions of elementwise kernels on single values: float, double and, if they map integers to
// integers, int64_t. With an `op` known at compile time no switch is left.
namespace binade::backend::cuda {

template <class T>
__device__ inline T sign(T x) {
  return x > 0 || x < 0 ? std::copysign(T(1), x) : x == 0 ? x : T(0);  // 0 for NaN, as in PyTorch
}

template <class T>
__device__ inline T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// x^exponent; the common exponents need no logarithm.
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

// One functor per function of float or double, as with_unary() expects: value(x), and
// gradient(g, s), g times the derivative, from the input or, if saves_output(op), from the output.
// clang-format off
template <class T>
struct Functions {
  // ---- gradients from the output y ----

  struct Sqrt {
    static __device__ T value(T x) { return std::sqrt(x); }
    static __device__ T gradient(T g, T y) { return g * T(0.5) / y; }
  };
  struct Rsqrt {
    static __device__ T value(T x) { return 1 / std::sqrt(x); }
    static __device__ T gradient(T g, T y) { return g * (T(-0.5) * y * y * y); }
  };
  struct Reciprocal {
    static __device__ T value(T x) { return 1 / x; }
    static __device__ T gradient(T g, T y) { return -g * (y * y); }
  };
  struct Exp {
    static __device__ T value(T x) { return std::exp(x); }
    static __device__ T gradient(T g, T y) { return g * y; }
  };
  struct Expm1 {
    static __device__ T value(T x) { return std::expm1(x); }
    static __device__ T gradient(T g, T x) { return g * std::exp(x); }
  };
  struct Tan {
    static __device__ T value(T x) { return std::tan(x); }
    static __device__ T gradient(T g, T y) { return g * (1 + y * y); }
  };
  struct Tanh {
    static __device__ T value(T x) { return std::tanh(x); }
    static __device__ T gradient(T g, T y) { return g * ((1 - y) * (1 + y)); }
  };
  struct Sigmoid {
    static __device__ T value(T x) { return sigmoid(x); }
    static __device__ T gradient(T g, T y) { return g * (y * (1 - y)); }
  };
  struct Erfinv {
    static __device__ T value(T x) { return ::erfinv(x); }
    static __device__ T gradient(T g, T y) {
      return g * (T(0.5 / std::numbers::inv_sqrtpi) * std::exp(y * y));
    }
  };

  // ---- gradients from the input x ----

  struct Neg {
    static __device__ T value(T x) { return -x; }
    static __device__ T gradient(T g, T) { return -g; }
  };
  struct Abs {
    static __device__ T value(T x) { return std::fabs(x); }
    static __device__ T gradient(T g, T x) { return g * sign(x); }
  };
  struct Square {
    static __device__ T value(T x) { return x * x; }
    static __device__ T gradient(T g, T x) { return g * (2 * x); }
  };
  struct Log {
    static __device__ T value(T x) { return std::log(x); }
    static __device__ T gradient(T g, T x) { return g / x; }
  };
  struct Log2 {
    static __device__ T value(T x) { return std::log2(x); }
    static __device__ T gradient(T g, T x) { return g * T(std::numbers::log2e) / x; }
  };
  struct Log10 {
    static __device__ T value(T x) { return std::log10(x); }
    static __device__ T gradient(T g, T x) { return g * T(std::numbers::log10e) / x; }
  };
  struct Log1p {
    static __device__ T value(T x) { return std::log1p(x); }
    static __device__ T gradient(T g, T x) { return g / (1 + x); }
  };
  struct Sin {
    static __device__ T value(T x) { return std::sin(x); }
    static __device__ T gradient(T g, T x) { return g * std::cos(x); }
  };
  struct Cos {
    static __device__ T value(T x) { return std::cos(x); }
    static __device__ T gradient(T g, T x) { return -g * std::sin(x); }
  };
  struct Asin {
    static __device__ T value(T x) { return std::asin(x); }
    static __device__ T gradient(T g, T x) { return g / std::sqrt((1 - x) * (1 + x)); }
  };
  struct Acos {
    static __device__ T value(T x) { return std::acos(x); }
    static __device__ T gradient(T g, T x) { return -g / std::sqrt((1 - x) * (1 + x)); }
  };
  struct Atan {
    static __device__ T value(T x) { return std::atan(x); }
    static __device__ T gradient(T g, T x) { return g / (1 + x * x); }
  };
  struct Sinh {
    static __device__ T value(T x) { return std::sinh(x); }
    static __device__ T gradient(T g, T x) { return g * std::cosh(x); }
  };
  struct Cosh {
    static __device__ T value(T x) { return std::cosh(x); }
    static __device__ T gradient(T g, T x) { return g * std::sinh(x); }
  };
  struct Erf {
    static __device__ T value(T x) { return std::erf(x); }
    static __device__ T gradient(T g, T x) {
      return g * (T(2 * std::numbers::inv_sqrtpi) * std::exp(-x * x));
    }
  };
  // A choice rather than a product, since 0 * infinity is NaN.
  struct Relu {
    static __device__ T value(T x) { return x <= 0 ? T(0) : x; }
    static __device__ T gradient(T g, T x) { return x <= 0 ? T(0) : g; }
  };
  struct Gelu {
    static __device__ T value(T x) { return x * ::normcdf(x); }
    static __device__ T gradient(T g, T x) {
      constexpr T inv_sqrt_2pi = T(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
      return g * (::normcdf(x) + x * (inv_sqrt_2pi * std::exp(T(-0.5) * x * x)));
    }
  };
  struct GeluTanh {
    static __device__ T value(T x) { return x * gate(x); }
    static __device__ T gradient(T g, T s) {
      // Past 20 the derivative is 0 or 1; bounding x keeps its square finite.
      const T x = s != s ? s : std::fmin(std::fmax(s, T(-20)), T(20));
      const T open = gate(x);
      const T du = T(linear) + T(3 * linear * cubic) * (x * x);
      return g * (open + open * (x * du * (1 - open)));
    }
    // (1 + tanh(u)) / 2 = sigmoid(2u), where u is the argument of GELU's tanh form.
    static __device__ T gate(T x) {
      return sigmoid(x * (T(linear) + T(linear * cubic) * (x * x)));
    }
    static constexpr double linear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    static constexpr double cubic = 0.044715;
  };
  struct Silu {
    static __device__ T value(T x) { return x * sigmoid(x); }
    static __device__ T gradient(T g, T x) {
      const T gate = sigmoid(x);
      return g * (gate + gate * (x * (1 - gate)));
    }
  };
  // log(1 + exp(x)), without overflow and without losing small results.
  struct Softplus {
    static __device__ T value(T x) { return (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::fabs(x))); }
    static __device__ T gradient(T g, T x) { return g * sigmoid(x); }
  };
  struct LeakyRelu {
    T slope;
    __device__ T value(T x) const { return x > 0 ? x : slope * x; }
    __device__ T gradient(T g, T x) const { return x > 0 ? g : g * slope; }
  };
  struct Pow {
    T exponent;
    __device__ T value(T x) const { return power(x, exponent); }
    __device__ T gradient(T g, T x) const {
      return exponent == 0 ? T(0) : g * (exponent * power(x, exponent - 1));
    }
  };
  struct Clamp {
    T low, high;
    __device__ T value(T x) const { return x != x ? x : std::fmin(std::fmax(x, low), high); }
    // As in PyTorch, no gradient at a bound, but an infinite bound is none.
    __device__ T gradient(T g, T x) const {
      const bool unbounded = std::fabs(x) == T(INFINITY) && (x == low || x == high);
      return unbounded || (x > low && x < high) ? g : T(0);
    }
  };
  struct Scale {
    T factor, offset;
    __device__ T value(T x) const { return std::fma(x, factor, offset); }
    __device__ T gradient(T g, T) const { return g * factor; }
  };

  // ---- functions whose derivative is zero wherever it exists ----

  struct Step { static __device__ T gradient(T, T) { return 0; } };
  struct Sign : Step { static __device__ T value(T x) { return sign(x); } };
  struct Floor : Step { static __device__ T value(T x) { return std::floor(x); } };
  struct Ceil : Step { static __device__ T value(T x) { return std::ceil(x); } };
  struct Round : Step { static __device__ T value(T x) { return std::rint(x); } };
  struct Trunc : Step { static __device__ T value(T x) { return std::trunc(x); } };
  struct IsFinite : Step { static __device__ T value(T x) { return std::fabs(x) < T(INFINITY) ? 1 : 0; } };
  struct IsNan : Step { static __device__ T value(T x) { return x != x ? 1 : 0; } };
  struct IsInf : Step { static __device__ T value(T x) { return std::fabs(x) == T(INFINITY) ? 1 : 0; } };
  struct LogicalNot : Step { static __device__ T value(T x) { return x == 0 ? 1 : 0; } };
};

// UnaryParams in a kernel's compute type.
template <class T>
struct Params {
  T a, b;
};

template <class T>
__device__ inline T unary_value(Unary op, T x, T a, T b) {
  return with_unary<Functions<T>>(op, Params<T>{a, b}, [&](auto function) { return function.value(x); });
}

// g times the derivative at s, which is the input or, if saves_output(op), the output.
template <class T>
__device__ inline T gradient_value(Unary op, T g, T s, T a, T b) {
  return with_unary<Functions<T>>(op, Params<T>{a, b}, [&](auto function) { return function.gradient(g, s); });
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
    default: return l;  // bits of floats, which ops refuse
  }
}

// ---- integers ----

// They wrap around: unsigned arithmetic, which has no undefined overflow.
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

// Only for ops that map integers to integers; a and b are integers too.
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
    case Binary::bitwise_and: return l & r;
    case Binary::bitwise_or: return l | r;
    case Binary::bitwise_xor: return l ^ r;
    default: return 0;
  }
}
// clang-format on

}  // namespace binade::backend::cuda
