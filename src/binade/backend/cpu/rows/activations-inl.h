// Activation functions for code compiled once per instruction set. Included inside Highway's
// foreach_target, hence a guard that toggles.
#if defined(BINADE_BACKEND_CPU_ACTIVATIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BINADE_BACKEND_CPU_ACTIVATIONS_INL
#undef BINADE_BACKEND_CPU_ACTIVATIONS_INL
#else
#define BINADE_BACKEND_CPU_ACTIVATIONS_INL
#endif

#include "binade/backend/cpu/rows/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {

// One functor per activation, used by every kernel that applies it: value(d, x), and
// gradient(d, dy, x), which is dy * derivative(d, x).
namespace activations {

template <class F>
struct Smooth {
  template <class D>
  static HWY_INLINE hn::Vec<D> gradient(D d, hn::Vec<D> dy, hn::Vec<D> x) {
    return hn::Mul(dy, F::derivative(d, x));
  }
};

struct Relu {
  // NaN stays NaN.
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x);
  }
  // A choice rather than a product, since 0 * infinity is NaN. dy passes if x is NaN, as in
  // PyTorch.
  template <class D>
  static HWY_INLINE hn::Vec<D> gradient(D d, hn::Vec<D> dy, hn::Vec<D> x) {
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), dy);
  }
};

// x sigmoid(x)
struct Silu : Smooth<Silu> {
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return hn::Mul(x, sigmoid(d, x));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> derivative(D d, hn::Vec<D> x) {
    return derivative(d, x, sigmoid(d, x));
  }
  // s (1 + x (1 - s)), where s is sigmoid(x).
  template <class D>
  static HWY_INLINE hn::Vec<D> derivative(D d, hn::Vec<D> x, hn::Vec<D> s) {
    const auto one = hn::Set(d, hn::TFromD<D>{1});
    return hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one));
  }
};

// x Phi(x)
struct Gelu : Smooth<Gelu> {
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return hn::Mul(x, normal_distribution(d, x).cumulative);
  }
  // Phi(x) + x phi(x)
  template <class D>
  static HWY_INLINE hn::Vec<D> derivative(D d, hn::Vec<D> x) {
    const auto normal = normal_distribution(d, x);
    return hn::MulAdd(x, normal.density, normal.cumulative);
  }
};

// GELU's tanh form is x sigmoid(u) with u = 2 sqrt(2 / pi) (x + 0.044715 x^3), since (1 + tanh(v))
// / 2 = sigmoid(2v); computing it that way keeps the left tail's relative accuracy.
struct GeluTanh : Smooth<GeluTanh> {
  template <class D>
  static HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) {
    return hn::Mul(x, gate(d, x, hn::Mul(x, x)));
  }
  // s + x u' s (1 - s), where s is sigmoid(u).
  template <class D>
  static HWY_INLINE hn::Vec<D> derivative(D d, hn::Vec<D> x) {
    using T = hn::TFromD<D>;
    const auto square = hn::Mul(x, x);
    const auto s = gate(d, x, square);
    const auto du = hn::MulAdd(square, hn::Set(d, static_cast<T>(3 * cubic)),
                               hn::Set(d, static_cast<T>(linear)));
    const auto outer = hn::Mul(s, hn::Sub(hn::Set(d, T{1}), s));
    // Where the sigmoid is flat the product would be 0 * infinity for a large x.
    const auto inner =
        hn::IfThenElse(hn::Eq(outer, hn::Zero(d)), outer, hn::Mul(hn::Mul(x, du), outer));
    return hn::Add(s, inner);
  }

 private:
  static constexpr double linear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double cubic = 0.044715 * linear;

  // sigmoid(u) = 1 / (1 + 2^(-u log2(e))): log2(e) is part of u's coefficients.
  template <class D>
  static HWY_INLINE hn::Vec<D> gate(D d, hn::Vec<D> x, hn::Vec<D> square) {
    using T = hn::TFromD<D>;
    const auto factor = hn::MulAdd(square, hn::Set(d, static_cast<T>(-std::numbers::log2e * cubic)),
                                   hn::Set(d, static_cast<T>(-std::numbers::log2e * linear)));
    const auto exponent = hn::Mul(x, factor);
    const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
    const auto too_large = hn::Gt(exponent, hn::Set(d, T{127}));
    const auto one = hn::Set(d, T{1});
    const auto power = hn::IfThenElse(too_large, infinity, fast_exp2(d, exponent));
    return hn::Div(one, hn::Add(one, power));
  }
};

}  // namespace activations

}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
