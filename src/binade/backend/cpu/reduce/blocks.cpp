#include "binade/backend/cpu/reduce/blocks.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/reduce/blocks.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef BINADE_REDUCE_BLOCKS_ONCE
#define BINADE_REDUCE_BLOCKS_ONCE
namespace binade::backend::cpu {
namespace {

// Running results of a block: a multiple of every instruction set's vectors, and enough of them to
// hide the latency of an addition.
constexpr int64_t running = 32;

}  // namespace
}  // namespace binade::backend::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, running>;
using V = hn::Vec<D>;

template <class F>
HWY_INLINE float join(const float* x, int64_t n, float neutral, F f) {
  constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  constexpr int64_t vectors = running / lanes;
  V results[vectors];
  for (V& result : results) result = hn::Set(D(), neutral);
  float padded[running];
  for (int64_t i = 0; i < n; i += running) {
    const float* from = x + i;
    if (HWY_UNLIKELY(n - i < running)) {
      std::fill(std::copy(x + i, x + n, padded), padded + running, neutral);
      from = padded;
    }
    for (int64_t v = 0; v < vectors; ++v) {
      results[v] = f(results[v], hn::LoadU(D(), from + v * lanes));
    }
  }
  for (int64_t half = vectors / 2; half > 0; half /= 2) {
    for (int64_t v = 0; v < half; ++v) results[v] = f(results[v], results[v + half]);
  }
  // Combines the halves of the last vector; the upper lanes of the operands are unused.
  hn::StoreU(results[0], D(), padded);
  std::fill(padded + lanes, padded + running, neutral);
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    hn::StoreU(f(hn::LoadU(D(), padded), hn::LoadU(D(), padded + half)), D(), padded);
  }
  return padded[0];
}

// a if `better`, else b; NaN if either is.
template <class M>
HWY_INLINE V choose(M better, V a, V b) {
  return hn::IfThenElse(hn::Or(better, hn::IsNaN(a)), a, b);
}

float reduce(Reduction op, const float* x, int64_t n) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  switch (op) {
    case Reduction::sum:
    case Reduction::mean:
      return join(x, n, 0, [](V a, V b) HWY_ATTR { return hn::Add(a, b); });
    case Reduction::prod:
      return join(x, n, 1, [](V a, V b) HWY_ATTR { return hn::Mul(a, b); });
    case Reduction::max:
      return join(x, n, -infinity, [](V a, V b) HWY_ATTR { return choose(hn::Gt(a, b), a, b); });
    case Reduction::min:
      return join(x, n, infinity, [](V a, V b) HWY_ATTR { return choose(hn::Lt(a, b), a, b); });
  }
  return 0;
}

}  // namespace
}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {
namespace {

HWY_EXPORT(reduce);

template <class T, class F>
T join(const T* x, int64_t n, T neutral, F f) {
  T results[running];
  std::fill_n(results, running, neutral);
  int64_t i = 0;
  for (; i + running <= n; i += running) {
    for (int64_t k = 0; k < running; ++k) results[k] = f(results[k], x[i + k]);
  }
  for (int64_t k = 0; i + k < n; ++k) results[k] = f(results[k], x[i + k]);
  for (int64_t half = running / 2; half > 0; half /= 2) {
    for (int64_t k = 0; k < half; ++k) results[k] = f(results[k], results[k + half]);
  }
  return results[0];
}

template <class T>
T reduce_scalar(Reduction op, const T* x, int64_t n) {
  // Integers wrap around.
  using U = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  using Limits = std::numeric_limits<T>;
  constexpr T lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  constexpr T highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  switch (op) {
    case Reduction::sum:
    case Reduction::mean:
      return join(x, n, T{0}, [](T a, T b) { return static_cast<T>(U(a) + U(b)); });
    case Reduction::prod:
      return join(x, n, T{1}, [](T a, T b) { return static_cast<T>(U(a) * U(b)); });
    case Reduction::max:
      return join(x, n, lowest, [](T a, T b) { return a > b || a != a ? a : b; });
    case Reduction::min:
      return join(x, n, highest, [](T a, T b) { return a < b || a != a ? a : b; });
  }
  return T{};
}

template <class T>
void deviations(const T* x, const T* center, int64_t step, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T deviation = x[i] - center[i * step];
    y[i] = deviation * deviation;
  }
}

}  // namespace

float reduce_block(Reduction op, const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(reduce)(op, x, n);
}
double reduce_block(Reduction op, const double* x, int64_t n) { return reduce_scalar(op, x, n); }
int64_t reduce_block(Reduction op, const int64_t* x, int64_t n) { return reduce_scalar(op, x, n); }

void squared_deviations(const float* x, float center, float* y, int64_t n) {
  deviations(x, &center, 0, y, n);
}
void squared_deviations(const double* x, double center, double* y, int64_t n) {
  deviations(x, &center, 0, y, n);
}
void squared_deviations(const float* x, const float* center, float* y, int64_t n) {
  deviations(x, center, 1, y, n);
}
void squared_deviations(const double* x, const double* center, double* y, int64_t n) {
  deviations(x, center, 1, y, n);
}

}  // namespace binade::backend::cpu
#endif
