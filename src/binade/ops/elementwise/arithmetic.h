#pragma once

#include <type_traits>

#include "binade/tensor/tensor.h"

namespace binade {

// The number in x + 1 or x < 0.5. As in PyTorch it does not widen a floating tensor; beside an
// integer tensor an integer stays one, and a floating number makes the result f32.
class Scalar {
 public:
  // Implicit, so that a number can stand for it.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value)  // NOLINT
      : value_(static_cast<double>(value)), is_integer_(std::is_integral_v<T>) {}

  double value() const { return value_; }
  bool is_integer() const { return is_integer_; }

 private:
  double value_;
  bool is_integer_;
};

// Elementwise arithmetic with broadcasting. The result's type is promote(a, b); a scalar tensor
// (rank 0) does not widen another operand of its kind (bool, integers, floats). Quotients of
// integers are f32; their powers are integers. Differences of bools are refused.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& b);
Tensor atan2(const Tensor& a, const Tensor& b);
// NaN if either is NaN. If both are equal, each gets half of the gradient; if one is NaN, each
// gets all of it, as in PyTorch.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// a - b * floor(a / b), which has b's sign: Python's %. Floats are computed in f64, integers
// exactly; these refuse a divisor of 0 on the CPU.
Tensor remainder(const Tensor& a, const Tensor& b);
// floor(a / b): Python's //.
Tensor floor_divide(const Tensor& a, const Tensor& b);

// Bits of integers; of bools, whether both, either or one of them is true.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
// a * 2^b, and floor(a / 2^b), for b from 0 to 62.
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);

Tensor add(const Tensor& a, Scalar b);
Tensor sub(const Tensor& a, Scalar b);
Tensor sub(Scalar a, const Tensor& b);
Tensor mul(const Tensor& a, Scalar b);
Tensor div(const Tensor& a, Scalar b);  // refuses a divisor of 0
Tensor div(Scalar a, const Tensor& b);
Tensor remainder(const Tensor& a, Scalar b);
Tensor floor_divide(const Tensor& a, Scalar b);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(a, b); }
inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator%(const Tensor& a, Scalar b) { return remainder(a, b); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
inline Tensor operator<<(const Tensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
inline Tensor operator>>(const Tensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }
// Of a's type.
Tensor scalar_of(const Tensor& a, Scalar b);
inline Tensor operator&(const Tensor& a, Scalar b) { return a & scalar_of(a, b); }
inline Tensor operator|(const Tensor& a, Scalar b) { return a | scalar_of(a, b); }
inline Tensor operator^(const Tensor& a, Scalar b) { return a ^ scalar_of(a, b); }
inline Tensor operator<<(const Tensor& a, Scalar b) { return a << scalar_of(a, b); }
inline Tensor operator>>(const Tensor& a, Scalar b) { return a >> scalar_of(a, b); }

// In place, in a's type: views and other handles of a see the change, and so does the graph; see
// copy_(). A temporary such as x[0] += y writes into what it views.
Tensor& operator+=(Tensor& a, const Tensor& b);
Tensor& operator-=(Tensor& a, const Tensor& b);
Tensor& operator*=(Tensor& a, const Tensor& b);
Tensor& operator/=(Tensor& a, const Tensor& b);
Tensor& operator+=(Tensor& a, Scalar b);
Tensor& operator-=(Tensor& a, Scalar b);
Tensor& operator*=(Tensor& a, Scalar b);
Tensor& operator/=(Tensor& a, Scalar b);
inline Tensor operator+=(Tensor&& a, const Tensor& b) { return a += b; }
inline Tensor operator-=(Tensor&& a, const Tensor& b) { return a -= b; }
inline Tensor operator*=(Tensor&& a, const Tensor& b) { return a *= b; }
inline Tensor operator/=(Tensor&& a, const Tensor& b) { return a /= b; }
inline Tensor operator+=(Tensor&& a, Scalar b) { return a += b; }
inline Tensor operator-=(Tensor&& a, Scalar b) { return a -= b; }
inline Tensor operator*=(Tensor&& a, Scalar b) { return a *= b; }
inline Tensor operator/=(Tensor&& a, Scalar b) { return a /= b; }

// a + value * b * c and a + value * b / c.
Tensor addcmul(const Tensor& a, const Tensor& b, const Tensor& c, double value = 1);
Tensor addcdiv(const Tensor& a, const Tensor& b, const Tensor& c, double value = 1);

// a if condition (bool) holds, else b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

// Elementwise comparisons: bool results. NaN compares unequal to everything.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);

Tensor eq(const Tensor& a, Scalar b);
Tensor not_equal(const Tensor& a, Scalar b);
Tensor less(const Tensor& a, Scalar b);
Tensor less_equal(const Tensor& a, Scalar b);
Tensor greater(const Tensor& a, Scalar b);
Tensor greater_equal(const Tensor& a, Scalar b);

// A Tensor does not convert to bool, so that if (a == b) does not compile: equal() is the question
// whether all elements are.
inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return not_equal(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }
inline Tensor operator==(const Tensor& a, Scalar b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, Scalar b) { return not_equal(a, b); }
inline Tensor operator<(const Tensor& a, Scalar b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, Scalar b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, Scalar b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, Scalar b) { return greater_equal(a, b); }
inline Tensor operator==(Scalar a, const Tensor& b) { return eq(b, a); }
inline Tensor operator!=(Scalar a, const Tensor& b) { return not_equal(b, a); }
inline Tensor operator<(Scalar a, const Tensor& b) { return greater(b, a); }
inline Tensor operator<=(Scalar a, const Tensor& b) { return greater_equal(b, a); }
inline Tensor operator>(Scalar a, const Tensor& b) { return less(b, a); }
inline Tensor operator>=(Scalar a, const Tensor& b) { return less_equal(b, a); }

// Whether two tensors have the same shape and equal elements. Waits for a GPU.
bool equal(const Tensor& a, const Tensor& b);

}  // namespace binade
