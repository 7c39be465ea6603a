#include "binade/backend/cpu/norm/norm_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/norm/norm_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/backend/cpu/rows/vector_rows-inl.h"

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

// One pass where that sums in the order that sum() has.
template <class T>
T add(const T* a, const T* b, int64_t n, T* y) {
  using V = Vector<T>;
  using P = Partials<Plus, T>;
  const Tag<T> d;
  if (n % P::width != 0) {
    transform<T>(
        n, y, [](V l, V r) HWY_ATTR { return hn::Add(l, r); }, a, b);
    return sum(y, n);
  }
  T total = 0;
  for (int64_t begin = 0; begin < n; begin += reduce_block) {
    P partials;
    for (int64_t i = begin; i < HWY_MIN(n, begin + reduce_block); i += P::width) {
      for (int64_t k = 0; k < P::parts; ++k) {
        const int64_t at = i + k * P::lanes;
        const V both = hn::Add(hn::LoadU(d, a + at), hn::LoadU(d, b + at));
        partials.acc[k] = hn::Add(partials.acc[k], both);
        hn::StoreU(both, d, y + at);
      }
    }
    total += partials.total();
  }
  return total;
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

// One pass over a block of a row; `parameters` says whether their gradients are wanted.
template <bool parameters, class T>
HWY_INLINE void gradient_block(const T* dy, const T* weight, const T* x, T center, T scale,
                               int64_t n, T* plain, T* centered, T* dweight, T* dbias) {
  using V = Vector<T>;
  using P = Partials<Plus, T>;
  const Tag<T> d;
  const V c = hn::Set(d, center), s = hn::Set(d, scale);
  P sums, dots;
  int64_t i = 0;
  for (; i + P::width <= n; i += P::width) {
    V dw[P::parts], db[P::parts];
    for (int64_t k = 0; k < P::parts; ++k) {
      const int64_t at = i + k * P::lanes;
      const V g = hn::LoadU(d, dy + at), v = hn::Sub(hn::LoadU(d, x + at), c);
      const V product = hn::Mul(g, hn::LoadU(d, weight + at));
      sums.acc[k] = hn::Add(sums.acc[k], product);
      dots.acc[k] = hn::MulAdd(product, v, dots.acc[k]);
      if constexpr (parameters) {
        dw[k] = hn::MulAdd(g, hn::Mul(v, s), hn::LoadU(d, dweight + at));
        db[k] = hn::Add(g, hn::LoadU(d, dbias + at));
      }
    }
    // Stores that might change what is loaded next wait until all is loaded.
    for (int64_t k = 0; parameters && k < P::parts; ++k) {
      hn::StoreU(dw[k], d, dweight + i + k * P::lanes);
      hn::StoreU(db[k], d, dbias + i + k * P::lanes);
    }
  }
  *plain += sums.total();
  *centered += dots.total();
  for (; i < n; ++i) {
    const T v = x[i] - center, product = dy[i] * weight[i];
    *plain += product;
    *centered += product * v;
    if constexpr (parameters) {
      dweight[i] += dy[i] * (v * scale);
      dbias[i] += dy[i];
    }
  }
}

template <class T>
void gradient_sums(const T* dy, const T* weight, const T* x, T center, T scale, int64_t n, T* plain,
                   T* centered, T* dweight, T* dbias) {
  *plain = *centered = 0;
  for (int64_t at = 0; at < n; at += reduce_block) {
    const int64_t count = HWY_MIN(reduce_block, n - at);
    if (dweight == nullptr) {
      gradient_block<false>(dy + at, weight + at, x + at, center, scale, count, plain, centered,
                            dweight, dbias);
    } else {
      gradient_block<true>(dy + at, weight + at, x + at, center, scale, count, plain, centered,
                           dweight + at, dbias + at);
    }
  }
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
constexpr NormRows<T> table{.sum = sum<T>,
                            .add = add<T>,
                            .square_sum = square_sum<T>,
                            .centered_dot = centered_dot<T>,
                            .gradient_sums = gradient_sums<T>,
                            .normalize = normalize<T>,
                            .affine = affine<T>,
                            .gradient = gradient<T>,
                            .gradient_plus = gradient_plus<T>};

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
