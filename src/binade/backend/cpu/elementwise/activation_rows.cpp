#include "binade/backend/cpu/elementwise/activation_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/elementwise/activation_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/backend/cpu/rows/activations-inl.h"
#include "binade/backend/cpu/rows/dispatch_rows.h"
#include "binade/backend/cpu/rows/vector_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void swiglu(const T* gate, const T* up, int64_t n, T* y) {
  using V = Vector<T>;
  transform<T>(
      n, y, [](V g, V u) HWY_ATTR { return hn::Mul(activations::Silu::value(Tag<T>(), g), u); },
      gate, up);
}

template <class T>
void swiglu_backward(const T* dy, const T* gate, const T* up, int64_t n, T* dgate, T* dup) {
  using V = Vector<T>;
  update<T>(
      n,
      [](V d, V g, V u, V& dg, V& du) HWY_ATTR {
        const V s = sigmoid(Tag<T>(), g);
        dg = hn::Mul(hn::Mul(d, u), activations::Silu::derivative(Tag<T>(), g, s));
        du = hn::Mul(d, hn::Mul(g, s));
      },
      dy, gate, up, dgate, dup);
}

template <class T>
void backward(Activation activation, const T* dy, const T* x, int64_t n, T* dx) {
  using V = Vector<T>;
  const auto through = [=](auto function) HWY_ATTR {
    transform<T>(
        n, dx, [=](V g, V v) HWY_ATTR { return function.gradient(Tag<T>(), g, v); }, dy, x);
  };
  switch (activation) {
    case Activation::none:
      return transform<T>(
          n, dx, [](V g) HWY_ATTR { return g; }, dy);
    case Activation::relu:
      return through(activations::Relu());
    case Activation::gelu:
      return through(activations::Gelu());
    case Activation::gelu_tanh:
      return through(activations::GeluTanh());
    case Activation::silu:
      return through(activations::Silu());
  }
}

template <class T>
constexpr ActivationRows<T> table{.swiglu = swiglu<T>,
                                  .swiglu_backward = swiglu_backward<T>,
                                  .backward = backward<T>,
                                  .lanes = vector_lanes<T>};

const ActivationRows<float>* rows_f32() { return &table<float>; }
const ActivationRows<double>* rows_f64() { return &table<double>; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

BINADE_DISPATCH_ROWS(ActivationRows, activation_rows);

}  // namespace binade::backend::cpu
#endif
