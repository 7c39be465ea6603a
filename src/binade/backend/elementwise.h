#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// One-input functions. Each has a vector form and a derivative in cpu/elementwise and
// cuda/elementwise.
enum class Unary : uint8_t {
  neg,
  abs,
  sign,
  square,
  sqrt,
  rsqrt,
  reciprocal,
  exp,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  erf,
  erfinv,
  sigmoid,
  relu,
  leaky_relu,
  gelu,
  gelu_tanh,
  silu,
  softplus,
  pow,
  clamp,
  scale,
  floor,
  ceil,
  round,
  trunc,
  is_finite,
  is_nan,
  is_inf,
  logical_not,
};

// Numbers some functions need: pow (a = exponent), clamp (a, b = bounds), scale (a * x + b),
// leaky_relu (a = slope).
struct UnaryParams {
  double a = 0;
  double b = 0;
};

enum class Binary : uint8_t {
  add,
  sub,
  mul,
  div,
  pow,
  atan2,
  maximum,
  minimum,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
};

// Elements are read in their own type, computed on in f32 (f64 where an input is f64, i64 where all
// are integers) and rounded once into the output's type. Strides are arbitrary; operands come
// expanded to the output's shape.
struct ElementwiseKernels {
  // y = op(x)
  void (*unary)(Unary op, UnaryParams numbers, TensorView x, TensorView y);
  // dx = dy * op'(x), from x or from y = op(x), whichever saves_output(op) says; adds to dx if
  // `accumulate`.
  void (*unary_backward)(Unary op, UnaryParams numbers, TensorView dy, TensorView saved,
                         TensorView dx, bool accumulate);
  // y = op(a, b)
  void (*binary)(Binary op, TensorView a, TensorView b, TensorView y);
  // y = condition ? a : b
  void (*where)(TensorView condition, TensorView a, TensorView b, TensorView y);
  // y = alpha * x + beta * y, converting between any two types. beta 0 never reads y.
  void (*axpby)(double alpha, TensorView x, double beta, TensorView y);
  // y = x, converting between any two types, exact wherever the target can hold the value.
  void (*copy)(TensorView x, TensorView y);
  void (*fill)(TensorView y, double value);
};

// Whether op's derivative is computed from its output (tanh, exp, ...) rather than its input.
constexpr bool saves_output(Unary op) {
  switch (op) {
    case Unary::sqrt:
    case Unary::rsqrt:
    case Unary::reciprocal:
    case Unary::exp:
    case Unary::expm1:
    case Unary::tan:
    case Unary::tanh:
    case Unary::sigmoid:
    case Unary::erfinv:
      return true;
    default:
      return false;
  }
}

}  // namespace binade::backend
