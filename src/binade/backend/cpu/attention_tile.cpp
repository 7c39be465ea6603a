#include "binade/backend/cpu/attention_tile.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/attention_tile.cpp"
#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

#include "binade/backend/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::attention {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using cpu::HWY_NAMESPACE::quick_exp2;

// Sums held in registers at a time, rows times vectors of columns: half of all registers, the
// others being for what compilers load ahead. NEON multiplies by a scalar without spreading it
// first, so it gains from fewer rows.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
constexpr int tile_rows = 4, tile_vectors = 2;
#elif HWY_TARGET == HWY_NEON
constexpr int tile_rows = 4, tile_vectors = 4;
#else
constexpr int tile_rows = 8, tile_vectors = 2;
#endif

// The loops over rows and vectors must be unrolled before the compiler decides what lives in
// registers.
template <int rows>
HWY_INLINE void product_tile(int64_t k, const double* a, int64_t a_row, const double* b, double* c,
                             bool accumulate) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  using V = hn::Vec<decltype(d)>;
  V sum[rows][tile_vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j) {
      sum[i][j] = accumulate ? hn::LoadU(d, c + i * product_width + j * lanes) : hn::Zero(d);
    }
  }
  for (int64_t p = 0; p < k; ++p, ++a, b += product_width) {
    V right[tile_vectors];
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j) right[j] = hn::LoadU(d, b + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const V left = hn::Set(d, a[i * a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < tile_vectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j)
      hn::StoreU(sum[i][j], d, c + i * product_width + j * lanes);
  }
}

// Calls f(d, vectors) with a vector type and how many of them make a step along a panel's rows:
// steps end where rows do, and several vectors at a time do not wait for one another.
template <class T, class F>
HWY_INLINE void with_steps(int64_t width, F f) {
  const auto step = [&](auto d) HWY_ATTR {
    const int64_t vectors = width / static_cast<int64_t>(hn::Lanes(d));
    if (vectors % 4 == 0) {
      f(d, std::integral_constant<int, 4>());
    } else if (vectors % 3 == 0) {
      f(d, std::integral_constant<int, 3>());
    } else if (vectors % 2 == 0) {
      f(d, std::integral_constant<int, 2>());
    } else {
      f(d, std::integral_constant<int, 1>());
    }
  };
  const hn::ScalableTag<T> d;
  if (width % static_cast<int64_t>(hn::Lanes(d)) == 0) {
    step(d);
  } else {
    step(hn::CappedTag<T, 4>());
  }
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE auto at_least(D d, int64_t first, int64_t least) {
  return hn::Ge(hn::Iota(d, static_cast<T>(first)), hn::Set(d, static_cast<T>(least)));
}

// The queries of one step, from `first` on.
template <int vectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void online_softmax_step(D d, int64_t first, int64_t keys, int64_t width, Mask mask,
                                    T scale, T* scores, T* maximum, T* sum, T* correction) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity()),
          factor = hn::Set(d, scale);
  const int64_t seen_by_all = mask.keys_seen(first + 1, keys);
  V highest[vectors], base[vectors], total[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) highest[v] = hn::LoadU(d, maximum + first + v * lanes);
  const auto find_highest = [&](int64_t j, auto masked) HWY_ATTR {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = first + v * lanes;
      V score = hn::Mul(hn::LoadU(d, scores + j * width + at), factor);
      if constexpr (masked)
        score = hn::IfThenElse(at_least(d, at, j - mask.diagonal), score, minus_infinity);
      highest[v] = hn::Max(highest[v], score);
    }
  };
  for (int64_t j = 0; j < seen_by_all; ++j) find_highest(j, std::false_type());
  for (int64_t j = seen_by_all; j < keys; ++j) find_highest(j, std::true_type());
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    // A row that has seen nothing keeps a finite base: -inf - -inf would be NaN.
    base[v] = hn::IfThenZeroElse(hn::Eq(highest[v], minus_infinity), highest[v]);
    total[v] = hn::Zero(d);
  }
  const auto exponentiate = [&](int64_t j, auto masked) HWY_ATTR {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = first + v * lanes;
      T* score = scores + j * width + at;
      // Rounded as `highest` was: a fused product minus a rounded one can be anything where scores
      // are giant.
      V p = quick_exp2(d, hn::Sub(hn::Mul(hn::LoadU(d, score), factor), base[v]));
      if constexpr (masked) p = hn::IfThenElseZero(at_least(d, at, j - mask.diagonal), p);
      hn::StoreU(p, d, score);
      total[v] = hn::Add(total[v], p);
    }
  };
  for (int64_t j = 0; j < seen_by_all; ++j) exponentiate(j, std::false_type());
  for (int64_t j = seen_by_all; j < keys; ++j) exponentiate(j, std::true_type());
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    const int64_t at = first + v * lanes;
    const V change = quick_exp2(d, hn::Sub(hn::LoadU(d, maximum + at), base[v]));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, sum + at), change, total[v]), d, sum + at);
    hn::StoreU(change, d, correction + at);
    hn::StoreU(highest[v], d, maximum + at);
  }
}

template <class T>
HWY_INLINE void online_softmax_any(int64_t keys, int64_t width, Mask mask, T scale, T* scores,
                                   T* maximum, T* sum, T* correction) {
  with_steps<T>(width, [=](auto d, auto vectors) HWY_ATTR {
    const int64_t step = vectors * static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = 0; i < width; i += step)
      online_softmax_step<vectors>(d, i, keys, width, mask, scale, scores, maximum, sum,
                                   correction);
  });
}

// Queries i and on of a panel of keys, several at a time: they do not wait for one another.
template <int rows, int vectors, bool masked, class D, class T = hn::TFromD<D>>
HWY_INLINE void softmax_gradient_rows(D d, int64_t i, int64_t width, Mask mask, T scale, T* scores,
                                      T* gradients, const T* lse, const T* delta) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, scale);
  for (int64_t j = 0; j < width; j += vectors * lanes) {
    V p[rows][vectors];
#pragma GCC unroll 2
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const V score = hn::LoadU(d, scores + (i + r) * width + j + v * lanes);
        p[r][v] = quick_exp2(d, hn::Sub(hn::Mul(score, factor), hn::Set(d, lse[i + r])));
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const int64_t at = (i + r) * width + j + v * lanes;
        V gradient = hn::Sub(hn::LoadU(d, gradients + at), hn::Set(d, delta[i + r]));
        if constexpr (masked) {
          const auto hidden = at_least(d, j + v * lanes, i + r + mask.diagonal + 1);
          p[r][v] = hn::IfThenZeroElse(hidden, p[r][v]);
          gradient = hn::IfThenZeroElse(hidden, gradient);
        }
        hn::StoreU(p[r][v], d, scores + at);
        hn::StoreU(hn::Mul(p[r][v], gradient), d, gradients + at);
      }
    }
  }
}

template <class T>
HWY_INLINE void softmax_gradient_any(int64_t queries, int64_t width, Mask mask, T scale, T* scores,
                                     T* gradients, const T* lse, const T* delta) {
  const int64_t some = mask.first_query(0, queries), all = mask.first_query(width - 1, queries);
  std::fill_n(scores, some * width, T(0));
  std::fill_n(gradients, some * width, T(0));
  with_steps<T>(width, [=](auto d, auto vectors) HWY_ATTR {
    int64_t i = some;
    for (; i < all; ++i)
      softmax_gradient_rows<1, vectors, true>(d, i, width, mask, scale, scores, gradients, lse,
                                              delta);
    for (; i + 2 <= queries; i += 2)
      softmax_gradient_rows<2, vectors, false>(d, i, width, mask, scale, scores, gradients, lse,
                                               delta);
    if (i < queries)
      softmax_gradient_rows<1, vectors, false>(d, i, width, mask, scale, scores, gradients, lse,
                                               delta);
  });
}

template <int vectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void scale_columns_step(D d, int64_t rows, int64_t width, const T* factors, T* columns) {
  hn::Vec<D> factor[vectors];
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) factor[v] = hn::LoadU(d, factors + v * lanes);
  for (int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      T* at = columns + i * width + v * lanes;
      hn::StoreU(hn::Mul(hn::LoadU(d, at), factor[v]), d, at);
    }
  }
}

template <class T>
HWY_INLINE void scale_columns_any(int64_t rows, int64_t width, const T* factors, T* panel) {
  with_steps<T>(width, [=](auto d, auto vectors) HWY_ATTR {
    const int64_t step = vectors * static_cast<int64_t>(hn::Lanes(d));
    for (int64_t j = 0; j < width; j += step)
      scale_columns_step<vectors>(d, rows, width, factors + j, panel + j);
  });
}

// Squares of one 128-bit vector's side; what is left at the edges one by one.
template <class T>
HWY_INLINE void transpose_any(int64_t rows, int64_t columns, const T* in, int64_t ld_in, T* out,
                              int64_t ld_out) {
  const hn::FixedTag<T, 16 / sizeof(T)> d;
  constexpr int64_t side = 16 / sizeof(T);
  const int64_t whole_rows = rows / side * side, whole_columns = columns / side * side;
  for (int64_t j = 0; j < whole_columns; j += side) {
    for (int64_t i = 0; i < whole_rows; i += side) {
      const T* from = in + i * ld_in + j;
      T* to = out + j * ld_out + i;
      if constexpr (side == 4) {
        const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + ld_in),
                   c = hn::LoadU(d, from + 2 * ld_in), e = hn::LoadU(d, from + 3 * ld_in);
        const auto low_ac = hn::InterleaveLower(d, a, c), high_ac = hn::InterleaveUpper(d, a, c),
                   low_be = hn::InterleaveLower(d, b, e), high_be = hn::InterleaveUpper(d, b, e);
        hn::StoreU(hn::InterleaveLower(d, low_ac, low_be), d, to);
        hn::StoreU(hn::InterleaveUpper(d, low_ac, low_be), d, to + ld_out);
        hn::StoreU(hn::InterleaveLower(d, high_ac, high_be), d, to + 2 * ld_out);
        hn::StoreU(hn::InterleaveUpper(d, high_ac, high_be), d, to + 3 * ld_out);
      } else {
        const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + ld_in);
        hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
        hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + ld_out);
      }
    }
  }
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i)
      out[j * ld_out + i] = in[i * ld_in + j];
  }
}

// Four sums, so that one does not wait for itself.
template <class T>
HWY_INLINE T dot_any(const T* a, const T* b, int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const int64_t at = i + v * lanes;
      sums[v] = hn::MulAdd(hn::LoadU(d, a + at), hn::LoadU(d, b + at), sums[v]);
    }
  }
  for (; i + lanes <= n; i += lanes)
    sums[0] = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums[0]);
  const V pairs = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  T sum = hn::GetLane(hn::SumOfLanes(d, pairs));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void product_f64(int64_t m, int64_t k, const double* a, int64_t a_row, const double* b, double* c,
                 bool accumulate) {
  constexpr int64_t columns = tile_vectors * hn::MaxLanes(hn::ScalableTag<double>());
  static_assert(product_width % columns == 0);
  for (int64_t j = 0; j < product_width; j += columns) {
    int64_t i = 0;
    for (; i + tile_rows <= m; i += tile_rows)
      product_tile<tile_rows>(k, a + i * a_row, a_row, b + j, c + i * product_width + j,
                              accumulate);
    for (; i < m; ++i)
      product_tile<1>(k, a + i * a_row, a_row, b + j, c + i * product_width + j, accumulate);
  }
}
void online_softmax_f32(int64_t keys, int64_t width, Mask mask, float scale, float* scores,
                        float* maximum, float* sum, float* correction) {
  online_softmax_any(keys, width, mask, scale, scores, maximum, sum, correction);
}
void online_softmax_f64(int64_t keys, int64_t width, Mask mask, double scale, double* scores,
                        double* maximum, double* sum, double* correction) {
  online_softmax_any(keys, width, mask, scale, scores, maximum, sum, correction);
}
void softmax_gradient_f32(int64_t queries, int64_t width, Mask mask, float scale, float* scores,
                          float* gradients, const float* lse, const float* delta) {
  softmax_gradient_any(queries, width, mask, scale, scores, gradients, lse, delta);
}
void softmax_gradient_f64(int64_t queries, int64_t width, Mask mask, double scale, double* scores,
                          double* gradients, const double* lse, const double* delta) {
  softmax_gradient_any(queries, width, mask, scale, scores, gradients, lse, delta);
}
void scale_columns_f32(int64_t rows, int64_t width, const float* factors, float* panel) {
  scale_columns_any(rows, width, factors, panel);
}
void scale_columns_f64(int64_t rows, int64_t width, const double* factors, double* panel) {
  scale_columns_any(rows, width, factors, panel);
}
void transpose_f32(int64_t rows, int64_t columns, const float* in, int64_t ld_in, float* out,
                   int64_t ld_out) {
  transpose_any(rows, columns, in, ld_in, out, ld_out);
}
void transpose_f64(int64_t rows, int64_t columns, const double* in, int64_t ld_in, double* out,
                   int64_t ld_out) {
  transpose_any(rows, columns, in, ld_in, out, ld_out);
}
float dot_f32(const float* a, const float* b, int64_t n) { return dot_any(a, b, n); }
double dot_f64(const double* a, const double* b, int64_t n) { return dot_any(a, b, n); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu::attention {

HWY_EXPORT(product_f64);
HWY_EXPORT(online_softmax_f32);
HWY_EXPORT(online_softmax_f64);
HWY_EXPORT(softmax_gradient_f32);
HWY_EXPORT(softmax_gradient_f64);
HWY_EXPORT(scale_columns_f32);
HWY_EXPORT(scale_columns_f64);
HWY_EXPORT(transpose_f32);
HWY_EXPORT(transpose_f64);
HWY_EXPORT(dot_f32);
HWY_EXPORT(dot_f64);

void product(int64_t m, int64_t k, const double* a, int64_t a_row, const double* b, double* c,
             bool accumulate) {
  HWY_DYNAMIC_DISPATCH(product_f64)(m, k, a, a_row, b, c, accumulate);
}

void online_softmax(int64_t keys, int64_t width, Mask mask, float scale, float* scores,
                    float* maximum, float* sum, float* correction) {
  HWY_DYNAMIC_DISPATCH(online_softmax_f32)
  (keys, width, mask, scale, scores, maximum, sum, correction);
}
void online_softmax(int64_t keys, int64_t width, Mask mask, double scale, double* scores,
                    double* maximum, double* sum, double* correction) {
  HWY_DYNAMIC_DISPATCH(online_softmax_f64)
  (keys, width, mask, scale, scores, maximum, sum, correction);
}

void softmax_gradient(int64_t queries, int64_t width, Mask mask, float scale, float* scores,
                      float* gradients, const float* lse, const float* delta) {
  HWY_DYNAMIC_DISPATCH(softmax_gradient_f32)
  (queries, width, mask, scale, scores, gradients, lse, delta);
}
void softmax_gradient(int64_t queries, int64_t width, Mask mask, double scale, double* scores,
                      double* gradients, const double* lse, const double* delta) {
  HWY_DYNAMIC_DISPATCH(softmax_gradient_f64)
  (queries, width, mask, scale, scores, gradients, lse, delta);
}

void scale_columns(int64_t rows, int64_t width, const float* factors, float* panel) {
  HWY_DYNAMIC_DISPATCH(scale_columns_f32)(rows, width, factors, panel);
}
void scale_columns(int64_t rows, int64_t width, const double* factors, double* panel) {
  HWY_DYNAMIC_DISPATCH(scale_columns_f64)(rows, width, factors, panel);
}

void transpose(int64_t rows, int64_t columns, const float* in, int64_t ld_in, float* out,
               int64_t ld_out) {
  HWY_DYNAMIC_DISPATCH(transpose_f32)(rows, columns, in, ld_in, out, ld_out);
}
void transpose(int64_t rows, int64_t columns, const double* in, int64_t ld_in, double* out,
               int64_t ld_out) {
  HWY_DYNAMIC_DISPATCH(transpose_f64)(rows, columns, in, ld_in, out, ld_out);
}

float dot(const float* a, const float* b, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(dot_f32)(a, b, n);
}
double dot(const double* a, const double* b, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(dot_f64)(a, b, n);
}

}  // namespace binade::backend::cpu::attention
#endif  // HWY_ONCE
