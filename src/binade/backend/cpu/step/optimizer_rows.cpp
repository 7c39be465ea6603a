#include "binade/backend/cpu/step/optimizer_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/step/optimizer_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/backend/cpu/rows/vector_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void adam(const AdamStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V factor = set(step.gradient_factor), keep = set(step.keep), decay = set(step.decay),
          beta1 = set(step.beta1), fresh1 = set(step.fresh1), beta2 = set(step.beta2),
          fresh2 = set(step.fresh2), root = set(step.root_correction2), eps = set(step.eps),
          size = set(step.step_size);
  const bool decays = step.decay != 0;
  update<T>(
      n,
      [=](V g, V& p, V& m, V& v) HWY_ATTR {
        g = hn::Mul(g, factor);
        if (decays) g = hn::MulAdd(decay, p, g);  // zero times an infinite weight would be NaN
        p = hn::Mul(p, keep);
        m = hn::MulAdd(beta1, m, hn::Mul(fresh1, g));
        v = hn::MulAdd(beta2, v, hn::Mul(hn::Mul(fresh2, g), g));
        const V denominator = hn::Add(hn::Div(hn::Sqrt(v), root), eps);
        p = hn::Sub(p, hn::Div(hn::Mul(size, m), denominator));
      },
      rows.gradient, rows.parameter, rows.first, rows.second);
}

template <class T>
void sgd(const SgdStep<T>& step, const UpdateRows<T>& rows, int64_t n) {
  using V = Vector<T>;
  const auto set = [](T value) HWY_ATTR { return hn::Set(Tag<T>(), value); };
  const V factor = set(step.gradient_factor), decay = set(step.decay), lr = set(step.lr),
          keep = set(step.momentum);
  const V fresh = set(step.first ? T{1} : step.fresh);
  const bool decays = step.decay != 0;
  const auto decayed = [=](V g, V p) HWY_ATTR {
    g = hn::Mul(g, factor);
    return decays ? hn::MulAdd(decay, p, g) : g;  // zero times an infinite weight would be NaN
  };
  if (rows.first == nullptr) {
    return update<T>(
        n, [=](V g, V& p) HWY_ATTR { p = hn::NegMulAdd(lr, decayed(g, p), p); }, rows.gradient,
        rows.parameter);
  }
  if (step.first) std::memset(rows.first, 0, static_cast<size_t>(n) * sizeof(T));
  if (step.nesterov) {
    update<T>(
        n,
        [=](V g, V& p, V& m) HWY_ATTR {
          g = decayed(g, p);
          m = hn::MulAdd(keep, m, hn::Mul(fresh, g));
          p = hn::NegMulAdd(lr, hn::MulAdd(keep, m, g), p);
        },
        rows.gradient, rows.parameter, rows.first);
  } else {
    update<T>(
        n,
        [=](V g, V& p, V& m) HWY_ATTR {
          m = hn::MulAdd(keep, m, hn::Mul(fresh, decayed(g, p)));
          p = hn::NegMulAdd(lr, m, p);
        },
        rows.gradient, rows.parameter, rows.first);
  }
}

template <class T>
bool unscale(const T* x, T factor, int64_t n, T* y) {
  using V = Vector<T>;
  const V f = hn::Set(Tag<T>(), factor), zero = hn::Zero(Tag<T>());
  // Zero times a non-finite number is NaN, and so is any sum with it.
  const T poison = reduce<Plus, T>(
      n, [zero](V acc, V v) HWY_ATTR { return hn::MulAdd(v, zero, acc); }, x);
  transform<T>(
      n, y, [f](V v) HWY_ATTR { return hn::Mul(v, f); }, x);
  return poison == 0;
}

using DoubleVector = Vector<double>;

double square_sum(const double* x, int64_t n) {
  return reduce<Plus, double>(
      n, [](DoubleVector acc, DoubleVector v) HWY_ATTR { return hn::MulAdd(v, v, acc); }, x);
}

double abs_sum(const double* x, int64_t n) {
  return reduce<Plus, double>(
      n, [](DoubleVector acc, DoubleVector v) HWY_ATTR { return hn::Add(acc, hn::Abs(v)); }, x);
}

double abs_max(const double* x, int64_t n) {
  return reduce<Larger, double>(
      n, [](DoubleVector acc, DoubleVector v) HWY_ATTR { return hn::Max(acc, hn::Abs(v)); }, x);
}

template <class T>
constexpr OptimizerRows<T> table{.adam = adam<T>, .sgd = sgd<T>, .unscale = unscale<T>};
constexpr GradientSums sum_table{.square_sum = square_sum, .abs_sum = abs_sum, .abs_max = abs_max};

const OptimizerRows<float>* rows_f32() { return &table<float>; }
const OptimizerRows<double>* rows_f64() { return &table<double>; }
const GradientSums* sums() { return &sum_table; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);
HWY_EXPORT(sums);

template <>
const OptimizerRows<float>& optimizer_rows<float>() {
  return *HWY_DYNAMIC_DISPATCH(rows_f32)();
}
template <>
const OptimizerRows<double>& optimizer_rows<double>() {
  return *HWY_DYNAMIC_DISPATCH(rows_f64)();
}
const GradientSums& gradient_sums() { return *HWY_DYNAMIC_DISPATCH(sums)(); }

}  // namespace binade::backend::cpu
#endif
