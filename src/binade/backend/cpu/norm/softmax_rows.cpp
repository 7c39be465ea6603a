#include "binade/backend/cpu/norm/softmax_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/norm/softmax_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/backend/cpu/rows/dispatch_rows.h"
#include "binade/backend/cpu/rows/vector_math-inl.h"
#include "binade/backend/cpu/rows/vector_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
T max(const T* x, int64_t n) {
  using V = Vector<T>;
  return reduce<Larger, T>(
      n, [](V acc, V v) HWY_ATTR { return hn::Max(acc, v); }, x);
}

template <class T>
T sum(const T* x, int64_t n) {
  using V = Vector<T>;
  return reduce<Plus, T>(
      n, [](V acc, V v) HWY_ATTR { return hn::Add(acc, v); }, x);
}

template <class T>
T gap_sum(const T* x, T shift, int64_t n) {
  using V = Vector<T>;
  const V s = hn::Set(Tag<T>(), shift);
  return reduce<Plus, T>(
      n, [s](V acc, V v) HWY_ATTR { return hn::Add(acc, hn::Sub(s, v)); }, x);
}

template <class T>
T dot(const T* a, const T* b, int64_t n) {
  using V = Vector<T>;
  return reduce<Plus, T>(
      n, [](V acc, V u, V v) HWY_ATTR { return hn::MulAdd(u, v, acc); }, a, b);
}

template <class T>
T exp_sum(const T* x, T shift, int64_t n) {
  using V = Vector<T>;
  const Tag<T> d;
  const V s = hn::Set(d, shift);
  return reduce<Plus, T>(
      n, [d, s](V acc, V v) HWY_ATTR { return hn::Add(acc, fast_exp(d, hn::Sub(v, s))); }, x);
}

template <class T>
void exp_scaled(const T* x, T shift, T scale, int64_t n, T* y) {
  using V = Vector<T>;
  const Tag<T> d;
  const V s = hn::Set(d, shift), c = hn::Set(d, scale);
  transform<T>(
      n, y, [d, s, c](V v) HWY_ATTR { return hn::Mul(fast_exp(d, hn::Sub(v, s)), c); }, x);
}

template <class T>
void gradient(const T* dy, const T* y, T offset, int64_t n, T* dx) {
  using V = Vector<T>;
  const V o = hn::Set(Tag<T>(), offset);
  transform<T>(
      n, dx, [o](V g, V v) HWY_ATTR { return hn::Mul(v, hn::Sub(g, o)); }, dy, y);
}

template <class T>
void log_gradient(const T* dy, const T* y, T total, int64_t n, T* dx) {
  using V = Vector<T>;
  const Tag<T> d;
  const V t = hn::Set(d, total);
  transform<T>(
      n, dx, [d, t](V g, V v) HWY_ATTR { return hn::NegMulAdd(fast_exp(d, v), t, g); }, dy, y);
}

template <class T>
constexpr SoftmaxRows<T> table{.max = max<T>,
                               .sum = sum<T>,
                               .gap_sum = gap_sum<T>,
                               .dot = dot<T>,
                               .exp_sum = exp_sum<T>,
                               .exp_scaled = exp_scaled<T>,
                               .gradient = gradient<T>,
                               .log_gradient = log_gradient<T>};

const SoftmaxRows<float>* rows_f32() { return &table<float>; }
const SoftmaxRows<double>* rows_f64() { return &table<double>; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

BINADE_DISPATCH_ROWS(SoftmaxRows, softmax_rows);

}  // namespace binade::backend::cpu
#endif
