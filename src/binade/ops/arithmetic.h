#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// Elementwise arithmetic with broadcasting. The result's type is promote(a, b); a scalar tensor
// (rank 0) does not widen the other operand.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& exponent);
Tensor atan2(const Tensor& a, const Tensor& b);
// NaN if either is NaN. If both are equal, each gets half of the gradient; if one is NaN, each
// gets all of it, as in PyTorch.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

Tensor add(const Tensor& a, double b);
Tensor mul(const Tensor& a, double b);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return add(a, -b); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(b, a); }
Tensor operator/(const Tensor& a, double b);

// a + value * b * c and a + value * b / c.
Tensor addcmul(const Tensor& a, const Tensor& b, const Tensor& c, double value = 1);
Tensor addcdiv(const Tensor& a, const Tensor& b, const Tensor& c, double value = 1);

// a if condition (bool) holds, else b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

// Comparisons: bool results. NaN compares unequal to everything.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);

}  // namespace binade
