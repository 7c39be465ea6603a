#pragma once

#include <cstdint>

#include "binade/backend/target.h"

namespace binade::backend {

// Functions of one input. cpu/elementwise and cuda/elementwise have a functor for each, with its
// value and its derivative (unary_dispatch.h).
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

// The parameters of pow (a = exponent), clamp (a, b = bounds), scale (a * x + b) and leaky_relu (a
// = slope).
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
  bitwise_and,  // these three of integers only
  bitwise_or,
  bitwise_xor,
};

// Elements are computed on in f32 (f64 if an input is f64, i64 if all are integers) and rounded
// once to the output's type. Strides are arbitrary; operands are already expanded to the output's
// shape.
struct ElementwiseKernels {
  // y = op(x)
  void (*unary)(Unary op, UnaryParams params, TensorView x, TensorView y);
  // dx = dy * op'(x), computed from x or, if saves_output(op), from y = op(x).
  void (*unary_backward)(Unary op, UnaryParams params, TensorView dy, TensorView saved, Target dx);
  // y = op(a, b)
  void (*binary)(Binary op, TensorView a, TensorView b, TensorView y);
  // y = condition ? a : b
  void (*where)(TensorView condition, TensorView a, TensorView b, TensorView y);
  // y = alpha * x + beta * y, converting between any two types. beta 0 never reads y.
  void (*axpby)(double alpha, TensorView x, double beta, TensorView y);
  // y = x, converting between any two types; exact if y's type can hold the value.
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
