#pragma once

#include "binade/backend/elementwise.h"
#include "binade/base/host_device.h"

namespace binade::backend {

// Calls f with the functor of `op` in `Functions`, a struct with one type per function: the CPU has
// such a struct for vectors and one for double, CUDA one for its device code. A functor has
// value(x) and gradient(dy, saved), dy times the derivative, computed from the input x or, if
// saves_output(op), from the output. This is the only list of unary functions by type, so none of
// these structs can lack a function or its derivative.
// clang-format off
template <class Functions, class Params, class F>
BINADE_HD inline auto with_unary(Unary op, const Params& params, F&& f) {
  switch (op) {
    case Unary::neg: return f(typename Functions::Neg());
    case Unary::abs: return f(typename Functions::Abs());
    case Unary::sign: return f(typename Functions::Sign());
    case Unary::square: return f(typename Functions::Square());
    case Unary::sqrt: return f(typename Functions::Sqrt());
    case Unary::rsqrt: return f(typename Functions::Rsqrt());
    case Unary::reciprocal: return f(typename Functions::Reciprocal());
    case Unary::exp: return f(typename Functions::Exp());
    case Unary::expm1: return f(typename Functions::Expm1());
    case Unary::log: return f(typename Functions::Log());
    case Unary::log2: return f(typename Functions::Log2());
    case Unary::log10: return f(typename Functions::Log10());
    case Unary::log1p: return f(typename Functions::Log1p());
    case Unary::sin: return f(typename Functions::Sin());
    case Unary::cos: return f(typename Functions::Cos());
    case Unary::tan: return f(typename Functions::Tan());
    case Unary::asin: return f(typename Functions::Asin());
    case Unary::acos: return f(typename Functions::Acos());
    case Unary::atan: return f(typename Functions::Atan());
    case Unary::sinh: return f(typename Functions::Sinh());
    case Unary::cosh: return f(typename Functions::Cosh());
    case Unary::tanh: return f(typename Functions::Tanh());
    case Unary::erf: return f(typename Functions::Erf());
    case Unary::erfinv: return f(typename Functions::Erfinv());
    case Unary::sigmoid: return f(typename Functions::Sigmoid());
    case Unary::relu: return f(typename Functions::Relu());
    case Unary::leaky_relu: return f(typename Functions::LeakyRelu{params.a});
    case Unary::gelu: return f(typename Functions::Gelu());
    case Unary::gelu_tanh: return f(typename Functions::GeluTanh());
    case Unary::silu: return f(typename Functions::Silu());
    case Unary::softplus: return f(typename Functions::Softplus());
    case Unary::pow: return f(typename Functions::Pow{params.a});
    case Unary::clamp: return f(typename Functions::Clamp{params.a, params.b});
    case Unary::scale: return f(typename Functions::Scale{params.a, params.b});
    case Unary::floor: return f(typename Functions::Floor());
    case Unary::ceil: return f(typename Functions::Ceil());
    case Unary::round: return f(typename Functions::Round());
    case Unary::trunc: return f(typename Functions::Trunc());
    case Unary::is_finite: return f(typename Functions::IsFinite());
    case Unary::is_nan: return f(typename Functions::IsNan());
    case Unary::is_inf: return f(typename Functions::IsInf());
    case Unary::logical_not: return f(typename Functions::LogicalNot());
  }
  __builtin_unreachable();  // a Unary has no other values
}
// clang-format on

}  // namespace binade::backend
