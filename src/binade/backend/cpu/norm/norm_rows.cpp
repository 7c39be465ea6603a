#include "binade/backend/cpu/norm/norm_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/norm/norm_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/backend/cpu/rows/dispatch_rows.h"
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

// Takes one pass if that adds in the same order as sum(), else two.
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

// Adds the sums of a block of a row; also the parameters' gradients if `parameters`.
template <bool parameters, class T>
HWY_INLINE void add_gradient_block(RowGradient<T> row, int64_t n, RowSums<T>& total, T* dweight,
                                   T* dbias) {
  using V = Vector<T>;
  using P = Partials<Plus, T>;
  const Tag<T> d;
  const V c = hn::Set(d, row.center), s = hn::Set(d, row.scale);
  P sums, dots;
  int64_t i = 0;
  for (; i + P::width <= n; i += P::width) {
    V dw[P::parts], db[P::parts];
    for (int64_t k = 0; k < P::parts; ++k) {
      const int64_t at = i + k * P::lanes;
      const V g = hn::LoadU(d, row.dy + at), v = hn::Sub(hn::LoadU(d, row.x + at), c);
      const V product = hn::Mul(g, hn::LoadU(d, row.weight + at));
      sums.acc[k] = hn::Add(sums.acc[k], product);
      dots.acc[k] = hn::MulAdd(product, v, dots.acc[k]);
      if constexpr (parameters) {
        dw[k] = hn::MulAdd(g, hn::Mul(v, s), hn::LoadU(d, dweight + at));
        db[k] = hn::Add(g, hn::LoadU(d, dbias + at));
      }
    }
    // The stores follow all loads: the compiler must assume that they overlap.
    for (int64_t k = 0; parameters && k < P::parts; ++k) {
      hn::StoreU(dw[k], d, dweight + i + k * P::lanes);
      hn::StoreU(db[k], d, dbias + i + k * P::lanes);
    }
  }
  total.plain += sums.total();
  total.centered += dots.total();
  for (; i < n; ++i) {
    const T v = row.x[i] - row.center, product = row.dy[i] * row.weight[i];
    total.plain += product;
    total.centered += product * v;
    if constexpr (parameters) {
      dweight[i] += row.dy[i] * (v * row.scale);
      dbias[i] += row.dy[i];
    }
  }
}

template <class T>
RowSums<T> gradient_sums(const RowGradient<T>& row, int64_t n, T* dweight, T* dbias) {
  RowSums<T> total{0, 0};
  for (int64_t at = 0; at < n; at += reduce_block) {
    const int64_t count = HWY_MIN(reduce_block, n - at);
    RowGradient<T> block = row;
    block.dy += at;
    block.x += at;
    block.weight += at;
    if (dweight == nullptr) {
      add_gradient_block<false>(block, count, total, dweight, dbias);
    } else {
      add_gradient_block<true>(block, count, total, dweight + at, dbias + at);
    }
  }
  return total;
}

template <class T>
void normalize(const T* x, const RowNorm<T>& norm, int64_t n, T* y) {
  using V = Vector<T>;
  const V c = hn::Set(Tag<T>(), norm.center), s = hn::Set(Tag<T>(), norm.scale);
  if (norm.bias == nullptr) {
    transform<T>(
        n, y, [c, s](V v, V w) HWY_ATTR { return hn::Mul(hn::Mul(hn::Sub(v, c), s), w); }, x,
        norm.weight);
  } else {
    transform<T>(
        n, y,
        [c, s](V v, V w, V b) HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, c), s), w, b); }, x,
        norm.weight, norm.bias);
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
void gradient(const RowGradient<T>& row, const Line<T>& line, int64_t n, T* dx) {
  using V = Vector<T>;
  const Tag<T> d;
  const V c = hn::Set(d, row.center), s = hn::Set(d, row.scale), m = hn::Set(d, line.slope),
          b = hn::Set(d, line.offset);
  const auto rest = [c, m, b](V v) HWY_ATTR { return hn::MulAdd(hn::Sub(v, c), m, b); };
  if (row.weight == nullptr) {
    transform<T>(
        n, dx, [s, rest](V g, V v) HWY_ATTR { return hn::MulAdd(g, s, rest(v)); }, row.dy, row.x);
  } else {
    transform<T>(
        n, dx, [s, rest](V g, V w, V v) HWY_ATTR { return hn::MulAdd(hn::Mul(g, w), s, rest(v)); },
        row.dy, row.weight, row.x);
  }
}

template <class T>
void gradient_plus(const RowGradient<T>& row, const Line<T>& line, const T* other, int64_t n,
                   T* dx) {
  using V = Vector<T>;
  const Tag<T> d;
  const V c = hn::Set(d, row.center), s = hn::Set(d, row.scale), m = hn::Set(d, line.slope),
          b = hn::Set(d, line.offset);
  transform<T>(
      n, dx,
      [c, s, m, b](V g, V w, V v, V o) HWY_ATTR {
        const V rest = hn::MulAdd(hn::Sub(v, c), m, b);
        return hn::Add(hn::MulAdd(hn::Mul(g, w), s, rest), o);
      },
      row.dy, row.weight, row.x, other);
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

BINADE_DISPATCH_ROWS(NormRows, norm_rows);

}  // namespace binade::backend::cpu
#endif
