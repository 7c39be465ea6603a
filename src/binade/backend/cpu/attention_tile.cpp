#include "binade/backend/cpu/attention_tile.h"

#include <limits>

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
using cpu::HWY_NAMESPACE::quick_exp;

// Vectors of queries at a time, so that one does not wait for itself; rows have room for them.
template <class T>
constexpr int side_by_side() {
  constexpr int64_t room = column_padding<T> / hn::MaxLanes(hn::ScalableTag<T>());
  return room < 4 ? static_cast<int>(room) : 4;
}

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
HWY_INLINE void product_tile(int64_t k, const double* a, int64_t a_row, int64_t a_column,
                             const double* b, int64_t ldb, double* c, int64_t ldc,
                             bool accumulate) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  using V = hn::Vec<decltype(d)>;
  V sum[rows][tile_vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j) {
      sum[i][j] = accumulate ? hn::LoadU(d, c + i * ldc + j * lanes) : hn::Zero(d);
    }
  }
  for (int64_t p = 0; p < k; ++p, a += a_column, b += ldb) {
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
    for (int j = 0; j < tile_vectors; ++j) hn::StoreU(sum[i][j], d, c + i * ldc + j * lanes);
  }
}

// Which of the queries from `first` on see key j.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE auto sees(D d, int64_t first, int64_t j, TileMask mask) {
  return hn::Ge(hn::Iota(d, static_cast<T>(first)), hn::Set(d, static_cast<T>(j - mask.diagonal)));
}

template <class T>
HWY_INLINE void online_softmax_any(int64_t keys, int64_t queries, TileMask mask, T scale, T* scores,
                                   int64_t ld, T* maximum, T* sum, T* correction) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int vectors = side_by_side<T>();
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity()),
          factor = hn::Set(d, scale);
  const bool masked = mask.hides(keys);
  for (int64_t i = 0; i < queries; i += vectors * lanes) {
    V highest[vectors], base[vectors], total[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) highest[v] = hn::LoadU(d, maximum + i + v * lanes);
    for (int64_t j = 0; j < keys; ++j) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        T* at = scores + j * ld + i + v * lanes;
        V score = hn::Mul(hn::LoadU(d, at), factor);
        if (masked) score = hn::IfThenElse(sees(d, i + v * lanes, j, mask), score, minus_infinity);
        hn::StoreU(score, d, at);
        highest[v] = hn::Max(highest[v], score);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      // A row that has seen nothing keeps a finite base: -inf - -inf would be NaN.
      base[v] = hn::IfThenZeroElse(hn::Eq(highest[v], minus_infinity), highest[v]);
      total[v] = hn::Zero(d);
    }
    for (int64_t j = 0; j < keys; ++j) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        T* at = scores + j * ld + i + v * lanes;
        const V p = quick_exp(d, hn::Sub(hn::LoadU(d, at), base[v]));
        hn::StoreU(p, d, at);
        total[v] = hn::Add(total[v], p);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = i + v * lanes;
      const V change = quick_exp(d, hn::Sub(hn::LoadU(d, maximum + at), base[v]));
      hn::StoreU(hn::MulAdd(hn::LoadU(d, sum + at), change, total[v]), d, sum + at);
      hn::StoreU(change, d, correction + at);
      hn::StoreU(highest[v], d, maximum + at);
    }
  }
}

template <class T>
HWY_INLINE void softmax_gradient_any(int64_t keys, int64_t queries, TileMask mask, T scale,
                                     T* scores, T* gradients, int64_t ld, const T* lse,
                                     const T* delta) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int vectors = side_by_side<T>();
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, scale);
  const bool masked = mask.hides(keys);
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t i = 0; i < queries; i += vectors * lanes) {
      V p[vectors], gradient[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const int64_t at = i + v * lanes;
        p[v] = quick_exp(
            d, hn::MulSub(hn::LoadU(d, scores + j * ld + at), factor, hn::LoadU(d, lse + at)));
        gradient[v] = hn::Sub(hn::LoadU(d, gradients + j * ld + at), hn::LoadU(d, delta + at));
      }
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const int64_t at = i + v * lanes;
        if (masked) {
          const auto visible = sees(d, at, j, mask);
          p[v] = hn::IfThenElseZero(visible, p[v]);
          gradient[v] = hn::IfThenElseZero(visible, gradient[v]);
        }
        hn::StoreU(p[v], d, scores + j * ld + at);
        hn::StoreU(hn::Mul(p[v], gradient[v]), d, gradients + j * ld + at);
      }
    }
  }
}

template <class T>
HWY_INLINE void scale_columns_any(int64_t rows, int64_t columns, const T* factors, T* tile,
                                  int64_t ld) {
  const hn::ScalableTag<T> d;
  for (int64_t j = 0; j < columns; j += static_cast<int64_t>(hn::Lanes(d))) {
    const auto factor = hn::LoadU(d, factors + j);
    for (int64_t i = 0; i < rows; ++i) {
      T* at = tile + i * ld + j;
      hn::StoreU(hn::Mul(hn::LoadU(d, at), factor), d, at);
    }
  }
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

template <class T>
HWY_INLINE T dot_any(const T* a, const T* b, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    sums = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums);
  T sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void product_f64(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_column,
                 const double* b, int64_t ldb, double* c, int64_t ldc, bool accumulate) {
  constexpr int64_t width = tile_vectors * hn::MaxLanes(hn::ScalableTag<double>());
  static_assert(column_padding<double> % width == 0);
  for (int64_t j = 0; j < n; j += width) {
    int64_t i = 0;
    for (; i + tile_rows <= m; i += tile_rows) {
      product_tile<tile_rows>(k, a + i * a_row, a_row, a_column, b + j, ldb, c + i * ldc + j, ldc,
                              accumulate);
    }
    for (; i < m; ++i) {
      product_tile<1>(k, a + i * a_row, a_row, a_column, b + j, ldb, c + i * ldc + j, ldc,
                      accumulate);
    }
  }
}
void online_softmax_f32(int64_t keys, int64_t queries, TileMask mask, float scale, float* scores,
                        int64_t ld, float* maximum, float* sum, float* correction) {
  online_softmax_any(keys, queries, mask, scale, scores, ld, maximum, sum, correction);
}
void online_softmax_f64(int64_t keys, int64_t queries, TileMask mask, double scale, double* scores,
                        int64_t ld, double* maximum, double* sum, double* correction) {
  online_softmax_any(keys, queries, mask, scale, scores, ld, maximum, sum, correction);
}
void softmax_gradient_f32(int64_t keys, int64_t queries, TileMask mask, float scale, float* scores,
                          float* gradients, int64_t ld, const float* lse, const float* delta) {
  softmax_gradient_any(keys, queries, mask, scale, scores, gradients, ld, lse, delta);
}
void softmax_gradient_f64(int64_t keys, int64_t queries, TileMask mask, double scale,
                          double* scores, double* gradients, int64_t ld, const double* lse,
                          const double* delta) {
  softmax_gradient_any(keys, queries, mask, scale, scores, gradients, ld, lse, delta);
}
void scale_columns_f32(int64_t rows, int64_t columns, const float* factors, float* tile,
                       int64_t ld) {
  scale_columns_any(rows, columns, factors, tile, ld);
}
void scale_columns_f64(int64_t rows, int64_t columns, const double* factors, double* tile,
                       int64_t ld) {
  scale_columns_any(rows, columns, factors, tile, ld);
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

void product(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_column,
             const double* b, int64_t ldb, double* c, int64_t ldc, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(product_f64)(m, n, k, a, a_row, a_column, b, ldb, c, ldc, accumulate);
}

void online_softmax(int64_t keys, int64_t queries, TileMask mask, float scale, float* scores,
                    int64_t ld, float* maximum, float* sum, float* correction) {
  HWY_DYNAMIC_DISPATCH(online_softmax_f32)
  (keys, queries, mask, scale, scores, ld, maximum, sum, correction);
}
void online_softmax(int64_t keys, int64_t queries, TileMask mask, double scale, double* scores,
                    int64_t ld, double* maximum, double* sum, double* correction) {
  HWY_DYNAMIC_DISPATCH(online_softmax_f64)
  (keys, queries, mask, scale, scores, ld, maximum, sum, correction);
}

void softmax_gradient(int64_t keys, int64_t queries, TileMask mask, float scale, float* scores,
                      float* gradients, int64_t ld, const float* lse, const float* delta) {
  HWY_DYNAMIC_DISPATCH(softmax_gradient_f32)
  (keys, queries, mask, scale, scores, gradients, ld, lse, delta);
}
void softmax_gradient(int64_t keys, int64_t queries, TileMask mask, double scale, double* scores,
                      double* gradients, int64_t ld, const double* lse, const double* delta) {
  HWY_DYNAMIC_DISPATCH(softmax_gradient_f64)
  (keys, queries, mask, scale, scores, gradients, ld, lse, delta);
}

void scale_columns(int64_t rows, int64_t columns, const float* factors, float* tile, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(scale_columns_f32)(rows, columns, factors, tile, ld);
}
void scale_columns(int64_t rows, int64_t columns, const double* factors, double* tile, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(scale_columns_f64)(rows, columns, factors, tile, ld);
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
