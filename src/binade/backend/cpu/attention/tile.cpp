#include "binade/backend/cpu/attention/tile.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/attention/tile.cpp"
#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

#include "binade/backend/cpu/attention/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::attention {
namespace HWY_NAMESPACE {
namespace {

using formats::HWY_NAMESPACE::load_f32;

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

// out[j, i] = factor * in[i, j] for a square of four.
template <class D>
HWY_INLINE void transpose_square(D d, hn::Vec<D> factor, const float* in, int64_t ld_in,
                                 hn::Vec<D> (&out)[4]) {
  const auto row = [=](int64_t i)
                       HWY_ATTR { return hn::Mul(hn::LoadU(d, in + i * ld_in), factor); };
  const auto a = row(0), b = row(1), c = row(2), e = row(3);
  const auto low_ac = hn::InterleaveLower(d, a, c), high_ac = hn::InterleaveUpper(d, a, c),
             low_be = hn::InterleaveLower(d, b, e), high_be = hn::InterleaveUpper(d, b, e);
  out[0] = hn::InterleaveLower(d, low_ac, low_be);
  out[1] = hn::InterleaveUpper(d, low_ac, low_be);
  out[2] = hn::InterleaveLower(d, high_ac, high_be);
  out[3] = hn::InterleaveUpper(d, high_ac, high_be);
}

// The same for a square of two.
template <class D>
HWY_INLINE void transpose_square(D d, hn::Vec<D> factor, const double* in, int64_t ld_in,
                                 hn::Vec<D> (&out)[2]) {
  const auto a = hn::Mul(hn::LoadU(d, in), factor), b = hn::Mul(hn::LoadU(d, in + ld_in), factor);
  out[0] = hn::InterleaveLower(d, a, b);
  out[1] = hn::InterleaveUpper(d, a, b);
}

// Calls square(i, j) for whole squares, `down` rows by `across` columns, and does what is left at
// the edges one by one.
template <class T, class Out, class Square>
HWY_INLINE void for_squares(int64_t rows, int64_t columns, int64_t down, int64_t across, T factor,
                            const T* in, int64_t ld_in, Out* out, int64_t ld_out, Square square) {
  const int64_t whole_rows = rows / down * down, whole_columns = columns / across * across;
  for (int64_t j = 0; j < whole_columns; j += across) {
    for (int64_t i = 0; i < whole_rows; i += down) square(i, j);
  }
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i)
      out[j * ld_out + i] = Out(factor * in[i * ld_in + j]);
  }
}

template <class T>
HWY_INLINE void transpose_any(int64_t rows, int64_t columns, T factor, const T* in, int64_t ld_in,
                              T* out, int64_t ld_out) {
  constexpr int64_t side = 16 / sizeof(T);
  const hn::FixedTag<T, side> d;
  const auto times = hn::Set(d, factor);
  for_squares(rows, columns, side, side, factor, in, ld_in, out, ld_out,
              [=](int64_t i, int64_t j) HWY_ATTR {
                hn::Vec<decltype(d)> square[side];
                transpose_square(d, times, in + i * ld_in + j, ld_in, square);
                for (int64_t k = 0; k < side; ++k)
                  hn::StoreU(square[k], d, out + (j + k) * ld_out + i);
              });
}

void transpose_bf16(int64_t rows, int64_t columns, float factor, const float* in, int64_t ld_in,
                    bf16* out, int64_t ld_out) {
  const hn::FixedTag<float, 4> d;
  const auto times = hn::Set(d, factor);
  for_squares(rows, columns, 8, 4, factor, in, ld_in, out, ld_out,
              [=](int64_t i, int64_t j) HWY_ATTR {
                hn::Vec<decltype(d)> low[4], high[4];
                transpose_square(d, times, in + i * ld_in + j, ld_in, low);
                transpose_square(d, times, in + (i + 4) * ld_in + j, ld_in, high);
                for (int64_t k = 0; k < 4; ++k)
                  store_halves(d, round_pair(d, low[k], high[k]), out + (j + k) * ld_out + i);
              });
}

template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, const double* p) {
  return hn::LoadU(d, p);
}
template <class D, class T>
HWY_INLINE hn::Vec<D> load_as(D d, const T* p) {
  return load_f32(d, p);
}

// Four sums, so that one does not wait for itself.
template <class T, class Sum>
HWY_INLINE Sum dot(const T* a, const T* b, int64_t n) {
  const hn::ScalableTag<Sum> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const int64_t at = i + v * lanes;
      sums[v] = hn::MulAdd(load_as(d, a + at), load_as(d, b + at), sums[v]);
    }
  }
  for (; i + lanes <= n; i += lanes)
    sums[0] = hn::MulAdd(load_as(d, a + i), load_as(d, b + i), sums[0]);
  const V pairs = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  Sum sum = hn::GetLane(hn::SumOfLanes(d, pairs));
  for (; i < n; ++i) sum += static_cast<Sum>(a[i]) * static_cast<Sum>(b[i]);
  return sum;
}

template <class T>
HWY_INLINE void prefetch(const T* p, int64_t n) {
  constexpr int64_t line = 64 / sizeof(T);
  for (int64_t i = 0; i < n; i += line) __builtin_prefetch(p + i);
}

// Rows are far apart, so that the CPU does not see them coming.
template <class T, class Sum>
HWY_INLINE void dots(int64_t rows, int64_t n, const T* a, int64_t ld_a, const T* b, int64_t ld_b,
                     Sum* out) {
  constexpr int64_t ahead = 8;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t next = std::min(i + ahead, rows - 1);
    prefetch(a + next * ld_a, n);
    prefetch(b + next * ld_b, n);
    out[i] = dot<T, Sum>(a + i * ld_a, b + i * ld_b, n);
  }
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
void scale_columns_f32(int64_t rows, int64_t width, const float* factors, float* panel) {
  scale_columns_any(rows, width, factors, panel);
}
void scale_columns_f64(int64_t rows, int64_t width, const double* factors, double* panel) {
  scale_columns_any(rows, width, factors, panel);
}
void transpose_f32(int64_t rows, int64_t columns, float factor, const float* in, int64_t ld_in,
                   float* out, int64_t ld_out) {
  transpose_any(rows, columns, factor, in, ld_in, out, ld_out);
}
void transpose_f64(int64_t rows, int64_t columns, double factor, const double* in, int64_t ld_in,
                   double* out, int64_t ld_out) {
  transpose_any(rows, columns, factor, in, ld_in, out, ld_out);
}
void dots_f32(int64_t rows, int64_t n, const float* a, int64_t ld_a, const float* b, int64_t ld_b,
              float* out) {
  dots(rows, n, a, ld_a, b, ld_b, out);
}
void dots_f16(int64_t rows, int64_t n, const f16* a, int64_t ld_a, const f16* b, int64_t ld_b,
              float* out) {
  dots(rows, n, a, ld_a, b, ld_b, out);
}
void dots_bf16(int64_t rows, int64_t n, const bf16* a, int64_t ld_a, const bf16* b, int64_t ld_b,
               float* out) {
  dots(rows, n, a, ld_a, b, ld_b, out);
}
void dots_f64(int64_t rows, int64_t n, const double* a, int64_t ld_a, const double* b, int64_t ld_b,
              double* out) {
  dots(rows, n, a, ld_a, b, ld_b, out);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu::attention {

HWY_EXPORT(product_f64);
HWY_EXPORT(scale_columns_f32);
HWY_EXPORT(scale_columns_f64);
HWY_EXPORT(transpose_f32);
HWY_EXPORT(transpose_bf16);
HWY_EXPORT(transpose_f64);
HWY_EXPORT(dots_f32);
HWY_EXPORT(dots_f16);
HWY_EXPORT(dots_bf16);
HWY_EXPORT(dots_f64);

void product(int64_t m, int64_t k, const double* a, int64_t a_row, const double* b, double* c,
             bool accumulate) {
  HWY_DYNAMIC_DISPATCH(product_f64)(m, k, a, a_row, b, c, accumulate);
}

void scale_columns(int64_t rows, int64_t width, const float* factors, float* panel) {
  HWY_DYNAMIC_DISPATCH(scale_columns_f32)(rows, width, factors, panel);
}
void scale_columns(int64_t rows, int64_t width, const double* factors, double* panel) {
  HWY_DYNAMIC_DISPATCH(scale_columns_f64)(rows, width, factors, panel);
}

void transpose(int64_t rows, int64_t columns, float factor, const float* in, int64_t ld_in,
               float* out, int64_t ld_out) {
  HWY_DYNAMIC_DISPATCH(transpose_f32)(rows, columns, factor, in, ld_in, out, ld_out);
}
void transpose(int64_t rows, int64_t columns, double factor, const double* in, int64_t ld_in,
               double* out, int64_t ld_out) {
  HWY_DYNAMIC_DISPATCH(transpose_f64)(rows, columns, factor, in, ld_in, out, ld_out);
}
void transpose(int64_t rows, int64_t columns, float factor, const float* in, int64_t ld_in,
               bf16* out, int64_t ld_out) {
  HWY_DYNAMIC_DISPATCH(transpose_bf16)(rows, columns, factor, in, ld_in, out, ld_out);
}

template <>
void row_dots(int64_t rows, int64_t n, const float* a, int64_t ld_a, const float* b, int64_t ld_b,
              float* out) {
  HWY_DYNAMIC_DISPATCH(dots_f32)(rows, n, a, ld_a, b, ld_b, out);
}
template <>
void row_dots(int64_t rows, int64_t n, const f16* a, int64_t ld_a, const f16* b, int64_t ld_b,
              float* out) {
  HWY_DYNAMIC_DISPATCH(dots_f16)(rows, n, a, ld_a, b, ld_b, out);
}
template <>
void row_dots(int64_t rows, int64_t n, const bf16* a, int64_t ld_a, const bf16* b, int64_t ld_b,
              float* out) {
  HWY_DYNAMIC_DISPATCH(dots_bf16)(rows, n, a, ld_a, b, ld_b, out);
}
template <>
void row_dots(int64_t rows, int64_t n, const double* a, int64_t ld_a, const double* b, int64_t ld_b,
              double* out) {
  HWY_DYNAMIC_DISPATCH(dots_f64)(rows, n, a, ld_a, b, ld_b, out);
}

}  // namespace binade::backend::cpu::attention
#endif  // HWY_ONCE
