#pragma once

#include <concepts>

#include "binade/tensor/arguments.h"
#include "binade/tensor/tensor.h"

namespace binade {

// Elementwise functions of one tensor, computed in f32 (f64 for f64) and rounded once. neg, abs,
// sign, square, relu, clamp and the roundings take integers, too, and keep their type.
Tensor neg(const Tensor& x);
inline Tensor operator-(const Tensor& x) { return neg(x); }
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor square(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfinv(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
Tensor gelu(const Tensor& x, Gelu form = Gelu::erf);
Tensor silu(const Tensor& x);
Tensor softplus(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
// Exact for integers, which refuse a negative exponent.
Tensor whole_pow(const Tensor& x, int64_t exponent);
template <std::integral T>
Tensor pow(const Tensor& x, T exponent) {
  return whole_pow(x, static_cast<int64_t>(exponent));
}
// low <= high, either may be infinite; values outside and at a finite bound get no gradient.
Tensor clamp(const Tensor& x, double low, double high);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // halves to even
Tensor trunc(const Tensor& x);
// Every bit of an integer, or the opposite of a bool.
Tensor bitwise_not(const Tensor& x);
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }

// bool results.
Tensor is_finite(const Tensor& x);
Tensor is_nan(const Tensor& x);
Tensor is_inf(const Tensor& x);
Tensor logical_not(const Tensor& x);

// x in another type; the gradient returns in x's own. Floats round once, to nearest even; integers
// truncate a float and saturate; NaN becomes 0.
Tensor cast(const Tensor& x, DType dtype);

}  // namespace binade
