#include "binade/backend/cpu/attention/tile.h"

#include <algorithm>

#include "binade/base/division.h"

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

// Sums held in registers at a time, rows times vectors of columns: half of all registers, so that
// compilers can load operands ahead into the others. NEON multiplies by a scalar without
// broadcasting it first, so fewer rows are faster there.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
constexpr int tile_rows = 4, tile_vectors = 2;
#elif HWY_TARGET == HWY_NEON
constexpr int tile_rows = 4, tile_vectors = 4;
#else
constexpr int tile_rows = 8, tile_vectors = 2;
#endif

// Multiplies `rows` rows of a, lda apart, with tile_vectors vectors of b's columns. The loops over
// rows and vectors must be unrolled before the compiler decides what stays in registers.
template <int rows>
HWY_INLINE void multiply_micro_tile(int64_t k, const double* a, int64_t lda, const double* b,
                                    double* c, bool accumulate) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  using V = hn::Vec<decltype(d)>;
  V sum[rows][tile_vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j) {
      sum[i][j] = accumulate ? hn::LoadU(d, c + i * f64_panel_width + j * lanes) : hn::Zero(d);
    }
  }
  for (int64_t p = 0; p < k; ++p, ++a, b += f64_panel_width) {
    V right[tile_vectors];
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j) right[j] = hn::LoadU(d, b + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const V left = hn::Set(d, a[i * lda]);
#pragma GCC unroll 4
      for (int j = 0; j < tile_vectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < tile_vectors; ++j)
      hn::StoreU(sum[i][j], d, c + i * f64_panel_width + j * lanes);
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

// out[j][i] = factor * in[i, j] for a square of four.
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

// transpose_square() for a square of two.
template <class D>
HWY_INLINE void transpose_square(D d, hn::Vec<D> factor, const double* in, int64_t ld_in,
                                 hn::Vec<D> (&out)[2]) {
  const auto a = hn::Mul(hn::LoadU(d, in), factor), b = hn::Mul(hn::LoadU(d, in + ld_in), factor);
  out[0] = hn::InterleaveLower(d, a, b);
  out[1] = hn::InterleaveUpper(d, a, b);
}

// Calls block(i, j) for the blocks of `down` rows by `across` columns that fit, and transposes the
// rest at the edges element by element.
template <class T, class Out, class Block>
HWY_INLINE void for_blocks(const Transpose<T, Out>& t, int64_t down, int64_t across, Block block) {
  const int64_t block_rows = round_down(t.rows, down),
                block_columns = round_down(t.columns, across);
  for (int64_t j = 0; j < block_columns; j += across) {
    for (int64_t i = 0; i < block_rows; i += down) block(i, j);
  }
  for (int64_t j = 0; j < t.columns; ++j) {
    for (int64_t i = j < block_columns ? block_rows : 0; i < t.rows; ++i)
      t.out[j * t.ld_out + i] = Out(t.factor * t.in[i * t.ld_in + j]);
  }
}

// Takes its argument by value: stores through `out` cannot change a local copy.
template <class T>
HWY_INLINE void transpose_any(Transpose<T> t) {
  constexpr int64_t side = 16 / sizeof(T);
  const hn::FixedTag<T, side> d;
  const auto factor = hn::Set(d, t.factor);
  for_blocks(t, side, side, [=](int64_t i, int64_t j) HWY_ATTR {
    hn::Vec<decltype(d)> square[side];
    transpose_square(d, factor, t.in + i * t.ld_in + j, t.ld_in, square);
    for (int64_t k = 0; k < side; ++k) hn::StoreU(square[k], d, t.out + (j + k) * t.ld_out + i);
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

// Four independent sums hide the latency of an FMA.
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

template <class T, class Sum>
HWY_INLINE void dots(RowDots<T, Sum> rows) {
  // Rows are far apart, so hardware prefetchers miss them; 8 rows ahead covers a memory access.
  constexpr int64_t ahead = 8;
  for (int64_t i = 0; i < rows.rows; ++i) {
    const int64_t next = std::min(i + ahead, rows.rows - 1);
    prefetch(rows.a + next * rows.ld_a, rows.n);
    prefetch(rows.b + next * rows.ld_b, rows.n);
    rows.out[i] = dot<T, Sum>(rows.a + i * rows.ld_a, rows.b + i * rows.ld_b, rows.n);
  }
}

void multiply_f64(const F64PanelMatmul& matmul) {
  constexpr int64_t columns = tile_vectors * hn::MaxLanes(hn::ScalableTag<double>());
  static_assert(f64_panel_width % columns == 0);
  const auto [m, k, a, lda, b, c, accumulate] = matmul;
  for (int64_t j = 0; j < f64_panel_width; j += columns) {
    int64_t i = 0;
    for (; i + tile_rows <= m; i += tile_rows)
      multiply_micro_tile<tile_rows>(k, a + i * lda, lda, b + j, c + i * f64_panel_width + j,
                                     accumulate);
    for (; i < m; ++i)
      multiply_micro_tile<1>(k, a + i * lda, lda, b + j, c + i * f64_panel_width + j, accumulate);
  }
}
void scale_columns_f32(int64_t rows, int64_t width, const float* factors, float* panel) {
  scale_columns_any(rows, width, factors, panel);
}
void scale_columns_f64(int64_t rows, int64_t width, const double* factors, double* panel) {
  scale_columns_any(rows, width, factors, panel);
}
void transpose_f32(const Transpose<float>& call) { transpose_any(call); }
void transpose_f64(const Transpose<double>& call) { transpose_any(call); }
void transpose_bf16(const Transpose<float, bf16>& call) {
  const hn::FixedTag<float, 4> d;
  const auto factor = hn::Set(d, call.factor);
  for_blocks(call, 8, 4, [=, t = call](int64_t i, int64_t j) HWY_ATTR {
    hn::Vec<decltype(d)> low[4], high[4];
    transpose_square(d, factor, t.in + i * t.ld_in + j, t.ld_in, low);
    transpose_square(d, factor, t.in + (i + 4) * t.ld_in + j, t.ld_in, high);
    for (int64_t k = 0; k < 4; ++k)
      store_halves(d, round_pair(d, low[k], high[k]), t.out + (j + k) * t.ld_out + i);
  });
}
void dots_f32(const RowDots<float, float>& call) { dots(call); }
void dots_f16(const RowDots<f16, float>& call) { dots(call); }
void dots_bf16(const RowDots<bf16, float>& call) { dots(call); }
void dots_f64(const RowDots<double, double>& call) { dots(call); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu::attention {

HWY_EXPORT(multiply_f64);
HWY_EXPORT(scale_columns_f32);
HWY_EXPORT(scale_columns_f64);
HWY_EXPORT(transpose_f32);
HWY_EXPORT(transpose_bf16);
HWY_EXPORT(transpose_f64);
HWY_EXPORT(dots_f32);
HWY_EXPORT(dots_f16);
HWY_EXPORT(dots_bf16);
HWY_EXPORT(dots_f64);

void multiply_f64_panel(const F64PanelMatmul& matmul) {
  HWY_DYNAMIC_DISPATCH(multiply_f64)(matmul);
}

void scale_columns(int64_t rows, int64_t width, const float* factors, float* panel) {
  HWY_DYNAMIC_DISPATCH(scale_columns_f32)(rows, width, factors, panel);
}
void scale_columns(int64_t rows, int64_t width, const double* factors, double* panel) {
  HWY_DYNAMIC_DISPATCH(scale_columns_f64)(rows, width, factors, panel);
}

void transpose(const Transpose<float>& call) { HWY_DYNAMIC_DISPATCH(transpose_f32)(call); }
void transpose(const Transpose<double>& call) { HWY_DYNAMIC_DISPATCH(transpose_f64)(call); }
void transpose(const Transpose<float, bf16>& call) { HWY_DYNAMIC_DISPATCH(transpose_bf16)(call); }

void row_dots(const RowDots<float, float>& call) { HWY_DYNAMIC_DISPATCH(dots_f32)(call); }
void row_dots(const RowDots<f16, float>& call) { HWY_DYNAMIC_DISPATCH(dots_f16)(call); }
void row_dots(const RowDots<bf16, float>& call) { HWY_DYNAMIC_DISPATCH(dots_bf16)(call); }
void row_dots(const RowDots<double, double>& call) { HWY_DYNAMIC_DISPATCH(dots_f64)(call); }

}  // namespace binade::backend::cpu::attention
#endif  // HWY_ONCE
