#include "binade/backend/cpu/attention_tile.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/attention_tile.cpp"
#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

#include "binade/backend/cpu/vector_math-inl.h"
#include "binade/formats/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::attention {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using cpu::HWY_NAMESPACE::quick_exp2;
using formats::HWY_NAMESPACE::load_f32;
using formats::HWY_NAMESPACE::store_codes;
using formats::HWY_NAMESPACE::Unsigned;

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

// Calls f(d, vectors) with how many vectors make a step along a panel's rows: steps end where rows
// do, and several vectors at a time do not wait for one another.
template <class D, class F>
HWY_INLINE void with_steps_of(D d, int64_t width, F f) {
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
}

// The same, choosing a vector type that divides rows.
template <class T, class F>
HWY_INLINE void with_steps(int64_t width, F f) {
  const hn::ScalableTag<T> d;
  if (width % static_cast<int64_t>(hn::Lanes(d)) == 0) {
    with_steps_of(d, width, f);
  } else {
    with_steps_of(hn::CappedTag<T, 4>(), width, f);
  }
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE auto at_least(D d, int64_t first, int64_t least) {
  return hn::Ge(hn::Iota(d, static_cast<T>(first)), hn::Set(d, static_cast<T>(least)));
}

// v to bf16, in the upper halves of lanes. Nothing carries out of a NaN whose lower half is 0.
template <class D>
HWY_INLINE Unsigned<D> round_to_upper(D /*d*/, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(bits, hn::Set(du, 0x10000u));
  return hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), hn::ShiftRight<16>(odd));
}

template <class D>
using Halves = hn::Vec<hn::Repartition<uint16_t, D>>;

// All of `low`, then all of `high`.
template <class D>
HWY_INLINE Halves<D> round_pair(D d, hn::Vec<D> low, hn::Vec<D> high) {
#if HWY_ARCH_ARM_A64
  // A CPU that multiplies bf16 converts to it as well, which the library does not know of.
  (void)d;
  Halves<D> pair;
  asm(".arch_extension bf16\n"
      "bfcvtn %0.4h, %1.4s\n"
      "bfcvtn2 %0.8h, %2.4s\n"
      : "=&w"(pair.raw)
      : "w"(low.raw), "w"(high.raw));
  return pair;
#else
  const hn::Repartition<uint16_t, D> d16;
  return hn::ConcatOdd(d16, hn::BitCast(d16, round_to_upper(d, high)),
                       hn::BitCast(d16, round_to_upper(d, low)));
#endif
}

template <class D>
HWY_INLINE void store_halves(D /*d*/, Halves<D> v, bf16* to) {
  hn::StoreU(v, hn::Repartition<uint16_t, D>(), &to->bits);
}

// Rows rounded to bf16 and stored as a right operand has them, [lanes][group], and as they are.
template <int group, class D>
struct RoundedRows;

template <class D>
struct RoundedRows<2, D> {
  Unsigned<D> upper[2];

  HWY_INLINE RoundedRows(D d, const hn::Vec<D> (&rows)[2])
      : upper{round_to_upper(d, rows[0]), round_to_upper(d, rows[1])} {}

  HWY_INLINE void store_groups(D d, bf16* to) const {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<uint16_t, D> d16;
    const auto high = hn::And(upper[1], hn::Set(du, 0xffff0000u));
    store_halves(d, hn::BitCast(d16, hn::Or(hn::ShiftRight<16>(upper[0]), high)), to);
  }
  HWY_INLINE void store_rows(D d, int64_t stride, bf16* to) const {
    store_codes(hn::ShiftRight<16>(upper[0]), d, to);
    store_codes(hn::ShiftRight<16>(upper[1]), d, to + stride);
  }
};

// Of four lanes each.
template <class D>
struct RoundedRows<4, D> {
  static_assert(hn::MaxLanes(D()) == 4);
  Halves<D> pairs[2];

  HWY_INLINE RoundedRows(D d, const hn::Vec<D> (&rows)[4])
      : pairs{round_pair(d, rows[0], rows[1]), round_pair(d, rows[2], rows[3])} {}

  HWY_INLINE void store_groups(D d, bf16* to) const {
    const hn::Repartition<uint16_t, D> d16;
    const auto even = hn::InterleaveLower(d16, pairs[0], pairs[1]),
               odd = hn::InterleaveUpper(d16, pairs[0], pairs[1]);
    store_halves(d, hn::InterleaveLower(d16, even, odd), to);
    store_halves(d, hn::InterleaveUpper(d16, even, odd), to + 8);
  }
  // One after the other.
  HWY_INLINE void store_rows(D d, bf16* to) const {
    store_halves(d, pairs[0], to);
    store_halves(d, pairs[1], to + 8);
  }
};

// What a step over scores does with queries: vectors of them from `first` on.
template <class T>
struct Softmax {
  int64_t first, keys, width;
  Mask mask;
  T scale;
  T *maximum, *sum, *correction;
};

template <int vectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void find_maximum(D d, const Softmax<T>& s, const T* scores,
                             hn::Vec<D> (&highest)[vectors]) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity()),
          factor = hn::Set(d, s.scale);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) highest[v] = hn::LoadU(d, s.maximum + s.first + v * lanes);
  const auto row = [&](int64_t j, auto masked) HWY_ATTR {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = s.first + v * lanes;
      V score = hn::Mul(hn::LoadU(d, scores + j * s.width + at), factor);
      if constexpr (masked)
        score = hn::IfThenElse(at_least(d, at, j - s.mask.diagonal), score, minus_infinity);
      highest[v] = hn::Max(highest[v], score);
    }
  };
  const int64_t seen_by_all = s.mask.keys_seen(s.first + 1, s.keys);
  for (int64_t j = 0; j < seen_by_all; ++j) row(j, std::false_type());
  for (int64_t j = seen_by_all; j < s.keys; ++j) row(j, std::true_type());
}

// A row that has seen nothing keeps a finite base: -inf - -inf would be NaN.
template <class D>
HWY_INLINE hn::Vec<D> base_of(D d, hn::Vec<D> highest) {
  const auto minus_infinity = hn::Set(d, -std::numeric_limits<hn::TFromD<D>>::infinity());
  return hn::IfThenZeroElse(hn::Eq(highest, minus_infinity), highest);
}

// Rounded as the maximum was: a fused product minus a rounded one can be anything where scores are
// giant.
template <class D>
HWY_INLINE hn::Vec<D> probability(D d, hn::Vec<D> score, hn::Vec<D> factor, hn::Vec<D> base) {
  return quick_exp2(d, hn::Sub(hn::Mul(score, factor), base));
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void finish_softmax(D d, const Softmax<T>& s, int64_t at, hn::Vec<D> highest,
                               hn::Vec<D> total) {
  const auto change = quick_exp2(d, hn::Sub(hn::LoadU(d, s.maximum + at), base_of(d, highest)));
  hn::StoreU(hn::MulAdd(hn::LoadU(d, s.sum + at), change, total), d, s.sum + at);
  hn::StoreU(change, d, s.correction + at);
  hn::StoreU(highest, d, s.maximum + at);
}

template <int vectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void online_softmax_step(D d, const Softmax<T>& s, T* scores) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, s.scale);
  V highest[vectors], base[vectors], total[vectors];
  find_maximum<vectors>(d, s, scores, highest);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    base[v] = base_of(d, highest[v]);
    total[v] = hn::Zero(d);
  }
  const auto row = [&](int64_t j, auto masked) HWY_ATTR {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = s.first + v * lanes;
      T* score = scores + j * s.width + at;
      V p = probability(d, hn::LoadU(d, score), factor, base[v]);
      if constexpr (masked) p = hn::IfThenElseZero(at_least(d, at, j - s.mask.diagonal), p);
      hn::StoreU(p, d, score);
      total[v] = hn::Add(total[v], p);
    }
  };
  const int64_t seen_by_all = s.mask.keys_seen(s.first + 1, s.keys);
  for (int64_t j = 0; j < seen_by_all; ++j) row(j, std::false_type());
  for (int64_t j = seen_by_all; j < s.keys; ++j) row(j, std::true_type());
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) finish_softmax(d, s, s.first + v * lanes, highest[v], total[v]);
}

// One vector of queries; `group` keys at a time do not wait for one another.
template <int group, class D>
HWY_INLINE void round_probabilities(D d, const Softmax<float>& s, int64_t at, int64_t end,
                                    const float* scores, hn::Vec<D> highest, bf16* to) {
  using V = hn::Vec<D>;
  const V factor = hn::Set(d, s.scale), base = base_of(d, highest);
  V total = hn::Zero(d);
  const auto rows = [&](int64_t j, auto masked) HWY_ATTR {
    V p[group];
#pragma GCC unroll 4
    for (int r = 0; r < group; ++r) {
      p[r] = probability(d, hn::LoadU(d, scores + (j + r) * s.width + at), factor, base);
      if constexpr (masked) {
        const int64_t least = j + r < s.keys ? j + r - s.mask.diagonal : s.width;
        p[r] = hn::IfThenElseZero(at_least(d, at, least), p[r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < group; ++r) total = hn::Add(total, p[r]);
    RoundedRows<group, D>(d, p).store_groups(d, to + j * s.width + at * group);
  };
  const int64_t seen_by_all = s.mask.keys_seen(at + 1, s.keys) / group * group;
  for (int64_t j = 0; j < seen_by_all; j += group) rows(j, std::false_type());
  for (int64_t j = seen_by_all; j < end; j += group) rows(j, std::true_type());
  finish_softmax(d, s, at, highest, total);
}

template <class T>
HWY_INLINE void online_softmax_any(int64_t keys, int64_t width, Mask mask, T scale, T* scores,
                                   T* maximum, T* sum, T* correction) {
  with_steps<T>(width, [=](auto d, auto vectors) HWY_ATTR {
    const int64_t step = vectors * static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = 0; i < width; i += step)
      online_softmax_step<vectors>(d, {i, keys, width, mask, scale, maximum, sum, correction},
                                   scores);
  });
}

template <int group, int vectors, class D>
HWY_INLINE void online_softmax_rounded(D d, int64_t end, Softmax<float> s, const float* scores,
                                       bf16* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; s.first < s.width; s.first += vectors * lanes) {
    hn::Vec<D> highest[vectors];
    find_maximum<vectors>(d, s, scores, highest);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      round_probabilities<group>(d, s, s.first + v * lanes, end, scores, highest[v], to);
  }
}

// Calls f(d, vectors, group) as with_steps does; a vector holds no more than a group of 4 wants.
template <class F>
HWY_INLINE void with_groups(int group, int64_t width, F f) {
  if (group == 2) {
    with_steps<float>(width, [&](auto d, auto vectors)
                                 HWY_ATTR { f(d, vectors, std::integral_constant<int, 2>()); });
  } else {
    with_steps_of(hn::CappedTag<float, 4>(), width, [&](auto d, auto vectors) HWY_ATTR {
      f(d, vectors, std::integral_constant<int, 4>());
    });
  }
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

// `group` queries from i on and one vector of keys from j on.
template <int group, bool masked, class D>
HWY_INLINE void round_gradients(D d, int64_t i, int64_t j, int64_t queries, int64_t width,
                                Mask mask, float scale, const float* scores, const float* gradients,
                                const float* lse, const float* delta, const RoundedGradients& to) {
  using V = hn::Vec<D>;
  const V factor = hn::Set(d, scale);
  V chances[group], products[group];
#pragma GCC unroll 4
  for (int r = 0; r < group; ++r) {
    const int64_t row = i + r, at = row * width + j;
    V chance = probability(d, hn::LoadU(d, scores + at), factor, hn::Set(d, lse[row]));
    V gradient = hn::Sub(hn::LoadU(d, gradients + at), hn::Set(d, delta[row]));
    if constexpr (masked) {
      const int64_t seen = std::min(row + mask.diagonal + 1, to.columns);
      const auto hidden = at_least(d, j, row < queries ? seen : 0);
      chance = hn::IfThenZeroElse(hidden, chance);
      gradient = hn::IfThenZeroElse(hidden, gradient);
    }
    chances[r] = chance;
    products[r] = hn::Mul(chance, gradient);
  }
  const RoundedRows<group, D> p(d, chances), ds(d, products);
  if (to.p != nullptr) {
    p.store_groups(d, to.p + i * width + j * group);
    ds.store_groups(d, to.ds + i * width + j * group);
  }
  if (to.ds_of_queries == nullptr) return;
  if constexpr (group == 2) {
    ds.store_rows(d, width, to.ds_of_queries + i * width + j);
  } else {
    ds.store_rows(d, to.ds_of_queries + i / width * to.query_panel + j * width + i % width * group);
  }
}

template <int group, int vectors, class D>
HWY_INLINE void softmax_gradient_rounded(D d, int64_t queries, int64_t width, Mask mask,
                                         float scale, const float* scores, const float* gradients,
                                         const float* lse, const float* delta,
                                         const RoundedGradients& to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto rows = [&](int64_t i, auto masked) HWY_ATTR {
    for (int64_t j = 0; j < width; j += vectors * lanes) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        round_gradients<group, masked>(d, i, j + v * lanes, queries, width, mask, scale, scores,
                                       gradients, lse, delta, to);
    }
  };
  // Queries that see every key.
  const int64_t all =
      to.columns == width ? std::max(to.begin, mask.first_query(width - 1, queries)) : to.end;
  const int64_t first = (all + group - 1) / group * group, last = queries / group * group;
  int64_t i = to.begin;
  for (; i < std::min(first, to.end); i += group) rows(i, std::true_type());
  for (; i < last; i += group) rows(i, std::false_type());
  for (; i < to.end; i += group) rows(i, std::true_type());
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
void round_softmax(int64_t keys, int64_t end, int64_t width, Mask mask, float scale,
                   const float* scores, float* maximum, float* sum, float* correction,
                   RightPanel to) {
  with_groups(to.group, width, [=](auto d, auto vectors, auto group) HWY_ATTR {
    online_softmax_rounded<group, vectors>(
        d, end, {0, keys, width, mask, scale, maximum, sum, correction}, scores, to.data);
  });
}
void round_softmax_gradient(int64_t queries, int64_t width, Mask mask, float scale,
                            const float* scores, const float* gradients, const float* lse,
                            const float* delta, const RoundedGradients& to) {
  with_groups(to.group, width, [=](auto d, auto vectors, auto group) HWY_ATTR {
    softmax_gradient_rounded<group, vectors>(d, queries, width, mask, scale, scores, gradients, lse,
                                             delta, to);
  });
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
HWY_EXPORT(online_softmax_f32);
HWY_EXPORT(online_softmax_f64);
HWY_EXPORT(softmax_gradient_f32);
HWY_EXPORT(softmax_gradient_f64);
HWY_EXPORT(round_softmax);
HWY_EXPORT(round_softmax_gradient);
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
void online_softmax(int64_t keys, int64_t end, int64_t width, Mask mask, float scale,
                    const float* scores, float* maximum, float* sum, float* correction,
                    RightPanel to) {
  HWY_DYNAMIC_DISPATCH(round_softmax)
  (keys, end, width, mask, scale, scores, maximum, sum, correction, to);
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
void softmax_gradient(int64_t queries, int64_t width, Mask mask, float scale, const float* scores,
                      const float* gradients, const float* lse, const float* delta,
                      const RoundedGradients& to) {
  HWY_DYNAMIC_DISPATCH(round_softmax_gradient)
  (queries, width, mask, scale, scores, gradients, lse, delta, to);
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
