#include "binade/backend/cpu/norm_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/norm_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/backend/cpu/vector_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
T sum(const T* x, int64_t n) {
  using V = Vector<T>;
  return reduce<Plus, T>(
      n, [](V acc, V v) HWY_ATTR { return hn::Add(acc, v); }, x);
}

template <class T>
T square_sum(const T* x, T center, int64_t n) {
  using V = Vector<T>;
  const V c = hn::Set(Tag<T>(), center);
  return reduce<Plus, T>(
      n,
      [c](V acc, V v) HWY_ATTR {
        const V deviation = hn::Sub(v, c);
        return hn::MulAdd(deviation, deviation, acc);
      },
      x);
}

template <class T>
T centered_dot(const T* dy, const T* x, T center, int64_t n) {
  using V = Vector<T>;
  const V c = hn::Set(Tag<T>(), center);
  return reduce<Plus, T>(
      n, [c](V acc, V g, V v) HWY_ATTR { return hn::MulAdd(g, hn::Sub(v, c), acc); }, dy, x);
}

template <class T>
void gradient_sums(const T* dy, const T* weight, const T* x, T center, int64_t n, T* plain,
                   T* centered) {
  using V = Vector<T>;
  const V c = hn::Set(Tag<T>(), center);
  *plain = reduce<Plus, T>(
      n, [](V acc, V g, V w) HWY_ATTR { return hn::MulAdd(g, w, acc); }, dy, weight);
  *centered = reduce<Plus, T>(
      n,
      [c](V acc, V g, V w, V v) HWY_ATTR { return hn::MulAdd(hn::Mul(g, w), hn::Sub(v, c), acc); },
      dy, weight, x);
}

template <class T>
void normalize(const T* x, T center, T scale, const T* weight, const T* bias, int64_t n, T* y) {
  using V = Vector<T>;
  const V c = hn::Set(Tag<T>(), center), s = hn::Set(Tag<T>(), scale);
  if (bias == nullptr) {
    transform<T>(
        n, y, [c, s](V v, V w) HWY_ATTR { return hn::Mul(hn::Mul(hn::Sub(v, c), s), w); }, x,
        weight);
  } else {
    transform<T>(
        n, y,
        [c, s](V v, V w, V b) HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, c), s), w, b); }, x,
        weight, bias);
  }
}

template <class T>
void affine(const T* x, T center, T scale, T offset, int64_t n, T* y) {
  using V = Vector<T>;
  const V c = hn::Set(Tag<T>(), center), s = hn::Set(Tag<T>(), scale),
          b = hn::Set(Tag<T>(), offset);
  transform<T>(
      n, y, [c, s, b](V v) HWY_ATTR { return hn::MulAdd(hn::Sub(v, c), s, b); }, x);
}

template <class T>
void gradient(const T* dy, const T* weight, const T* x, T center, T scale, T slope, T offset,
              int64_t n, T* dx) {
  using V = Vector<T>;
  const Tag<T> d;
  const V c = hn::Set(d, center), s = hn::Set(d, scale), m = hn::Set(d, slope),
          b = hn::Set(d, offset);
  const auto rest = [c, m, b](V v) HWY_ATTR { return hn::MulAdd(hn::Sub(v, c), m, b); };
  if (weight == nullptr) {
    transform<T>(
        n, dx, [s, rest](V g, V v) HWY_ATTR { return hn::MulAdd(g, s, rest(v)); }, dy, x);
  } else {
    transform<T>(
        n, dx, [s, rest](V g, V w, V v) HWY_ATTR { return hn::MulAdd(hn::Mul(g, w), s, rest(v)); },
        dy, weight, x);
  }
}

template <class T>
void gradient_plus(const T* dy, const T* weight, const T* x, T center, T scale, T slope, T offset,
                   const T* other, int64_t n, T* dx) {
  using V = Vector<T>;
  const Tag<T> d;
  const V c = hn::Set(d, center), s = hn::Set(d, scale), m = hn::Set(d, slope),
          b = hn::Set(d, offset);
  transform<T>(
      n, dx,
      [c, s, m, b](V g, V w, V v, V o) HWY_ATTR {
        const V rest = hn::MulAdd(hn::Sub(v, c), m, b);
        return hn::Add(hn::MulAdd(hn::Mul(g, w), s, rest), o);
      },
      dy, weight, x, other);
}

template <class T>
void add_parameters(const T* dy, const T* x, T center, T scale, int64_t n, T* dweight, T* dbias) {
  using V = Vector<T>;
  const V c = hn::Set(Tag<T>(), center), s = hn::Set(Tag<T>(), scale);
  update<T>(
      n,
      [c, s](V g, V v, V& dw, V& db) HWY_ATTR {
        dw = hn::MulAdd(g, hn::Mul(hn::Sub(v, c), s), dw);
        db = hn::Add(db, g);
      },
      dy, x, dweight, dbias);
}

template <class T>
constexpr NormRows<T> table{.sum = sum<T>,
                            .square_sum = square_sum<T>,
                            .centered_dot = centered_dot<T>,
                            .gradient_sums = gradient_sums<T>,
                            .normalize = normalize<T>,
                            .affine = affine<T>,
                            .gradient = gradient<T>,
                            .gradient_plus = gradient_plus<T>,
                            .add_parameters = add_parameters<T>};

const NormRows<float>* rows_f32() { return &table<float>; }
const NormRows<double>* rows_f64() { return &table<double>; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);

template <>
const NormRows<float>& norm_rows<float>() {
  return *HWY_DYNAMIC_DISPATCH(rows_f32)();
}
template <>
const NormRows<double>& norm_rows<double>() {
  return *HWY_DYNAMIC_DISPATCH(rows_f64)();
}

}  // namespace binade::backend::cpu
#endif
