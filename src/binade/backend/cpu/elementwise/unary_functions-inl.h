// The unary functions on vectors of float, for code compiled once per instruction set: include this
// below hwy/foreach_target.h.

// NOLINTNEXTLINE(llvm-header-guard): re-included for every target.
#if defined(BINADE_ELEMENTWISE_UNARY_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BINADE_ELEMENTWISE_UNARY_FUNCTIONS_INL_H_
#undef BINADE_ELEMENTWISE_UNARY_FUNCTIONS_INL_H_
#else
#define BINADE_ELEMENTWISE_UNARY_FUNCTIONS_INL_H_
#endif

#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/cpu/elementwise/math-inl.h"
#include "binade/backend/cpu/rows/activations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {

// One functor per function, as with_unary() expects: value(x), and gradient(g, s), g times the
// derivative, from the input or, if saves_output(op), from the output.
// clang-format off
struct VectorFunctions {
  // An activation of rows/activations-inl.h.
  template <class A>
  struct Activation {
    static HWY_INLINE V value(V x) { return A::value(D(), x); }
    static HWY_INLINE V gradient(V g, V x) { return A::gradient(D(), g, x); }
  };
  using Relu = Activation<activations::Relu>;
  using Gelu = Activation<activations::Gelu>;
  using GeluTanh = Activation<activations::GeluTanh>;
  using Silu = Activation<activations::Silu>;

  // ---- gradients from the output y ----

  struct Sqrt {
    static HWY_INLINE V value(V x) { return hn::Sqrt(x); }
    static HWY_INLINE V gradient(V g, V y) { return hn::Div(hn::Mul(g, constant(0.5)), y); }
  };
  struct Rsqrt {
    static HWY_INLINE V value(V x) { return hn::Div(constant(1), hn::Sqrt(x)); }
    static HWY_INLINE V gradient(V g, V y) {
      return hn::Mul(g, hn::Mul(hn::Mul(hn::Mul(constant(-0.5), y), y), y));
    }
  };
  struct Reciprocal {
    static HWY_INLINE V value(V x) { return hn::Div(constant(1), x); }
    static HWY_INLINE V gradient(V g, V y) { return hn::Mul(hn::Neg(g), hn::Mul(y, y)); }
  };
  struct Exp {
    static HWY_INLINE V value(V x) { return exp(x); }
    static HWY_INLINE V gradient(V g, V y) { return hn::Mul(g, y); }
  };
  struct Expm1 {
    static HWY_INLINE V value(V x) { return expm1(x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Mul(g, exp(x)); }
  };
  struct Tan {
    static HWY_INLINE V value(V x) { return by_lane(x, [](float v) { return std::tan(v); }); }
    static HWY_INLINE V gradient(V g, V y) { return hn::Mul(g, hn::MulAdd(y, y, constant(1))); }
  };
  struct Tanh {
    static HWY_INLINE V value(V x) { return tanh(x); }
    static HWY_INLINE V gradient(V g, V y) { return hn::Mul(g, one_minus_square(y)); }
  };
  struct Sigmoid {
    static HWY_INLINE V value(V x) { return sigmoid(D(), x); }
    static HWY_INLINE V gradient(V g, V y) { return hn::Mul(g, hn::Mul(y, hn::Sub(constant(1), y))); }
  };
  struct Erfinv {
    static HWY_INLINE V value(V x) {
      return by_lane(x, [](float v) { return static_cast<float>(inverse_erf(v)); });
    }
    static HWY_INLINE V gradient(V g, V y) {
      return hn::Mul(g, hn::Mul(constant(0.5 / std::numbers::inv_sqrtpi), exp(hn::Mul(y, y))));
    }
  };

  // ---- gradients from the input x ----

  struct Neg {
    static HWY_INLINE V value(V x) { return hn::Neg(x); }
    static HWY_INLINE V gradient(V g, V) { return hn::Neg(g); }
  };
  struct Abs {
    static HWY_INLINE V value(V x) { return hn::Abs(x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Mul(g, sign(x)); }
  };
  struct Square {
    static HWY_INLINE V value(V x) { return hn::Mul(x, x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Mul(g, hn::Add(x, x)); }
  };
  struct Log {
    static HWY_INLINE V value(V x) { return log(x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Div(g, x); }
  };
  struct Log2 {
    static HWY_INLINE V value(V x) { return log2(x); }
    static HWY_INLINE V gradient(V g, V x) {
      return hn::Div(hn::Mul(g, constant(std::numbers::log2e)), x);
    }
  };
  struct Log10 {
    static HWY_INLINE V value(V x) { return log10(x); }
    static HWY_INLINE V gradient(V g, V x) {
      return hn::Div(hn::Mul(g, constant(std::numbers::log10e)), x);
    }
  };
  struct Log1p {
    static HWY_INLINE V value(V x) { return log1p(x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Div(g, hn::Add(x, constant(1))); }
  };
  struct Sin {
    static HWY_INLINE V value(V x) { return sin(x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Mul(g, cos(x)); }
  };
  struct Cos {
    static HWY_INLINE V value(V x) { return cos(x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Mul(hn::Neg(g), sin(x)); }
  };
  struct Asin {
    static HWY_INLINE V value(V x) { return within_one(x, hn::Asin(D(), x)); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Div(g, hn::Sqrt(one_minus_square(x))); }
  };
  struct Acos {
    static HWY_INLINE V value(V x) { return within_one(x, hn::Acos(D(), x)); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Neg(Asin::gradient(g, x)); }
  };
  struct Atan {
    static HWY_INLINE V value(V x) { return hn::Atan(D(), x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Div(g, hn::MulAdd(x, x, constant(1))); }
  };
  struct Sinh {
    static HWY_INLINE V value(V x) { return sinh(x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Mul(g, cosh(x)); }
  };
  struct Cosh {
    static HWY_INLINE V value(V x) { return cosh(x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Mul(g, sinh(x)); }
  };
  struct Erf {
    static HWY_INLINE V value(V x) { return erf(x); }
    static HWY_INLINE V gradient(V g, V x) {
      return hn::Mul(g, hn::Mul(constant(2 * std::numbers::inv_sqrtpi), exp(hn::Neg(hn::Mul(x, x)))));
    }
  };
  struct Softplus {
    static HWY_INLINE V value(V x) { return softplus(x); }
    static HWY_INLINE V gradient(V g, V x) { return hn::Mul(g, sigmoid(D(), x)); }
  };
  struct LeakyRelu {
    double slope;
    HWY_INLINE V value(V x) const {
      return hn::IfThenElse(hn::Gt(x, hn::Zero(D())), x, hn::Mul(x, constant(slope)));
    }
    HWY_INLINE V gradient(V g, V x) const {
      return hn::IfThenElse(hn::Gt(x, hn::Zero(D())), g, hn::Mul(g, constant(slope)));
    }
  };
  struct Pow {
    double exponent;
    HWY_INLINE V value(V x) const { return pow(x, exponent); }
    HWY_INLINE V gradient(V g, V x) const {
      if (exponent == 0) return hn::Zero(D());
      return hn::Mul(g, hn::Mul(constant(exponent), pow(x, exponent - 1)));
    }
  };
  // As in PyTorch, no gradient at a bound, but an infinite bound is none.
  struct Clamp {
    double low, high;
    HWY_INLINE V value(V x) const {
      return hn::IfThenElse(is_nan(x), x, hn::Min(hn::Max(x, constant(low)), constant(high)));
    }
    HWY_INLINE V gradient(V g, V x) const {
      const V least = constant(low), most = constant(high);
      const Mask unbounded = hn::And(hn::Eq(hn::Abs(x), constant(infinity)),
                                     hn::Or(hn::Eq(x, least), hn::Eq(x, most)));
      return hn::IfThenElseZero(
          hn::Or(unbounded, hn::And(hn::Gt(x, least), hn::Lt(x, most))), g);
    }
  };
  struct Scale {
    double factor, offset;
    HWY_INLINE V value(V x) const { return hn::MulAdd(x, constant(factor), constant(offset)); }
    HWY_INLINE V gradient(V g, V) const { return hn::Mul(g, constant(factor)); }
  };

  // ---- functions whose derivative is zero wherever it exists ----

  struct Step {
    static HWY_INLINE V gradient(V, V) { return hn::Zero(D()); }
  };
  struct Sign : Step { static HWY_INLINE V value(V x) { return sign(x); } };
  struct Floor : Step { static HWY_INLINE V value(V x) { return hn::Floor(x); } };
  struct Ceil : Step { static HWY_INLINE V value(V x) { return hn::Ceil(x); } };
  struct Round : Step { static HWY_INLINE V value(V x) { return hn::Round(x); } };
  struct Trunc : Step { static HWY_INLINE V value(V x) { return hn::Trunc(x); } };
  struct IsFinite : Step {
    static HWY_INLINE V value(V x) { return one_or_zero(hn::Lt(hn::Abs(x), constant(infinity))); }
  };
  struct IsNan : Step { static HWY_INLINE V value(V x) { return one_or_zero(is_nan(x)); } };
  struct IsInf : Step {
    static HWY_INLINE V value(V x) { return one_or_zero(hn::Eq(hn::Abs(x), constant(infinity))); }
  };
  struct LogicalNot : Step {
    static HWY_INLINE V value(V x) { return one_or_zero(hn::Eq(x, hn::Zero(D()))); }
  };
};
// clang-format on

}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BINADE_ELEMENTWISE_UNARY_FUNCTIONS_INL_H_
