#include "binade/backend/cpu/attention/softmax.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "binade/base/division.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/attention/softmax.cpp"
#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

#include "binade/backend/cpu/attention/panel-inl.h"
#include "binade/backend/cpu/rows/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::attention {
namespace HWY_NAMESPACE {
namespace {

using cpu::HWY_NAMESPACE::fast_exp2;
using formats::HWY_NAMESPACE::store_codes;

template <class D, class T = hn::TFromD<D>>
HWY_INLINE auto at_least(D d, int64_t first, int64_t least) {
  return hn::Ge(hn::Iota(d, static_cast<T>(first)), hn::Set(d, static_cast<T>(least)));
}

// Rows rounded to bf16, to be stored in a right operand's layout, [lanes][group], or row by row.
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

// Four rows of four lanes.
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
  // Rows follow one another without gaps.
  HWY_INLINE void store_rows(D d, bf16* to) const {
    store_halves(d, pairs[0], to);
    store_halves(d, pairs[1], to + 8);
  }
};

// Maxima of the vectors of queries from `first` on, this block's scores included.
template <int vectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void find_maximum(D d, const OnlineSoftmax<T>& s, int64_t first,
                             hn::Vec<D> (&highest)[vectors]) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity()),
          factor = hn::Set(d, s.scale);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) highest[v] = hn::LoadU(d, s.maximum + first + v * lanes);
  const auto row = [&](int64_t j, auto masked) HWY_ATTR {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = first + v * lanes;
      V score = hn::Mul(hn::LoadU(d, s.scores + j * s.width + at), factor);
      if constexpr (masked)
        score = hn::IfThenElse(at_least(d, at, j - s.mask.diagonal), score, minus_infinity);
      highest[v] = hn::Max(highest[v], score);
    }
  };
  const int64_t seen_by_all = s.mask.keys_seen(first + 1, s.keys);
  for (int64_t j = 0; j < seen_by_all; ++j) row(j, std::false_type());
  for (int64_t j = seen_by_all; j < s.keys; ++j) row(j, std::true_type());
}

// A query that has seen no key gets a base of 0: -inf - -inf would be NaN.
template <class D>
HWY_INLINE hn::Vec<D> base_of(D d, hn::Vec<D> highest) {
  const auto minus_infinity = hn::Set(d, -std::numeric_limits<hn::TFromD<D>>::infinity());
  return hn::IfThenZeroElse(hn::Eq(highest, minus_infinity), highest);
}

// Rounds score * factor before the subtraction, as the maximum was rounded: with an FMA, huge
// scores could end up above their own maximum.
template <class D>
HWY_INLINE hn::Vec<D> probability(D d, hn::Vec<D> score, hn::Vec<D> factor, hn::Vec<D> base) {
  return fast_exp2(d, hn::Sub(hn::Mul(score, factor), base));
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void finish_softmax(D d, const OnlineSoftmax<T>& s, int64_t at, hn::Vec<D> highest,
                               hn::Vec<D> total) {
  const auto change = fast_exp2(d, hn::Sub(hn::LoadU(d, s.maximum + at), base_of(d, highest)));
  hn::StoreU(hn::MulAdd(hn::LoadU(d, s.sum + at), change, total), d, s.sum + at);
  hn::StoreU(change, d, s.correction + at);
  hn::StoreU(highest, d, s.maximum + at);
}

// Takes s by value, which keeps it in registers: stores to the arrays cannot change a local copy.
template <int vectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void online_softmax_step(D d, OnlineSoftmax<T> s, int64_t first) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, s.scale);
  V highest[vectors], base[vectors], total[vectors];
  find_maximum<vectors>(d, s, first, highest);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    base[v] = base_of(d, highest[v]);
    total[v] = hn::Zero(d);
  }
  const auto row = [&](int64_t j, auto masked) HWY_ATTR {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = first + v * lanes;
      T* score = s.scores + j * s.width + at;
      V p = probability(d, hn::LoadU(d, score), factor, base[v]);
      if constexpr (masked) p = hn::IfThenElseZero(at_least(d, at, j - s.mask.diagonal), p);
      hn::StoreU(p, d, score);
      total[v] = hn::Add(total[v], p);
    }
  };
  const int64_t seen_by_all = s.mask.keys_seen(first + 1, s.keys);
  for (int64_t j = 0; j < seen_by_all; ++j) row(j, std::false_type());
  for (int64_t j = seen_by_all; j < s.keys; ++j) row(j, std::true_type());
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) finish_softmax(d, s, first + v * lanes, highest[v], total[v]);
}

// One vector of queries from `at` on, `group` independent keys at a time.
template <int group, class D>
HWY_INLINE void round_probabilities(D d, const OnlineSoftmax<float>& s, int64_t at,
                                    hn::Vec<D> highest, const RightPanel& to) {
  using V = hn::Vec<D>;
  const V factor = hn::Set(d, s.scale), base = base_of(d, highest);
  V total = hn::Zero(d);
  const auto rows = [&](int64_t j, auto masked) HWY_ATTR {
    V p[group];
#pragma GCC unroll 4
    for (int r = 0; r < group; ++r) {
      p[r] = probability(d, hn::LoadU(d, s.scores + (j + r) * s.width + at), factor, base);
      if constexpr (masked) {
        const int64_t least = j + r < s.keys ? j + r - s.mask.diagonal : s.width;
        p[r] = hn::IfThenElseZero(at_least(d, at, least), p[r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < group; ++r) total = hn::Add(total, p[r]);
    RoundedRows<group, D>(d, p).store_groups(d, to.data + j * s.width + at * group);
  };
  const int64_t seen_by_all = round_down(s.mask.keys_seen(at + 1, s.keys), group);
  for (int64_t j = 0; j < seen_by_all; j += group) rows(j, std::false_type());
  for (int64_t j = seen_by_all; j < to.k; j += group) rows(j, std::true_type());
  finish_softmax(d, s, at, highest, total);
}

template <class T>
HWY_INLINE void online_softmax_any(const OnlineSoftmax<T>& s) {
  with_steps<T>(s.width, [=](auto d, auto vectors) HWY_ATTR {
    const int64_t step = vectors * static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = 0; i < s.width; i += step) online_softmax_step<vectors>(d, s, i);
  });
}

template <int group, int vectors, class D>
HWY_INLINE void online_softmax_rounded(D d, OnlineSoftmax<float> s, RightPanel to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t first = 0; first < s.width; first += vectors * lanes) {
    hn::Vec<D> highest[vectors];
    find_maximum<vectors>(d, s, first, highest);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      round_probabilities<group>(d, s, first + v * lanes, highest[v], to);
  }
}

// `rows` independent queries from i on.
template <int rows, bool masked, class D, class T = hn::TFromD<D>>
HWY_INLINE void softmax_gradient_rows(D d, int64_t i, const SoftmaxGradient<T>& g) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, g.scale);
  for (int64_t j = 0; j < g.width; j += lanes) {
    V p[rows];
#pragma GCC unroll 2
    for (int r = 0; r < rows; ++r) {
      const V score = hn::LoadU(d, g.scores + (i + r) * g.width + j);
      p[r] = probability(d, score, factor, hn::Set(d, g.lse[i + r]));
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; ++r) {
      const int64_t at = (i + r) * g.width + j;
      V gradient = hn::Sub(hn::LoadU(d, g.gradients + at), hn::Set(d, g.delta[i + r]));
      if constexpr (masked) {
        const auto hidden = at_least(d, j, i + r + g.mask.diagonal + 1);
        p[r] = hn::IfThenZeroElse(hidden, p[r]);
        gradient = hn::IfThenZeroElse(hidden, gradient);
      }
      hn::StoreU(p[r], d, g.scores + at);
      hn::StoreU(hn::Mul(p[r], gradient), d, g.gradients + at);
    }
  }
}

template <class T>
HWY_INLINE void softmax_gradient_any(SoftmaxGradient<T> g) {
  const int64_t some = g.mask.first_query(0, g.queries),
                all = g.mask.first_query(g.width - 1, g.queries);
  std::fill_n(g.scores, some * g.width, T(0));
  std::fill_n(g.gradients, some * g.width, T(0));
  with_lanes<T>(g.width, [=](auto d) HWY_ATTR {
    int64_t i = some;
    for (; i < all; ++i) softmax_gradient_rows<1, true>(d, i, g);
    for (; i + 2 <= g.queries; i += 2) softmax_gradient_rows<2, false>(d, i, g);
    if (i < g.queries) softmax_gradient_rows<1, false>(d, i, g);
  });
}

// `group` queries from i on and one vector of keys from j on.
template <int group, bool masked, class D>
HWY_INLINE void round_gradients(D d, int64_t i, int64_t j, const SoftmaxGradient<const float>& g,
                                const RoundedGradients& to) {
  using V = hn::Vec<D>;
  const V factor = hn::Set(d, g.scale);
  const int64_t width = g.width;
  V probabilities[group], score_gradients[group];
#pragma GCC unroll 4
  for (int r = 0; r < group; ++r) {
    const int64_t row = i + r, at = row * width + j;
    V p = probability(d, hn::LoadU(d, g.scores + at), factor, hn::Set(d, g.lse[row]));
    V gradient = hn::Sub(hn::LoadU(d, g.gradients + at), hn::Set(d, g.delta[row]));
    if constexpr (masked) {
      const int64_t seen = std::min(row + g.mask.diagonal + 1, to.columns);
      const auto hidden = at_least(d, j, row < g.queries ? seen : 0);
      p = hn::IfThenZeroElse(hidden, p);
      gradient = hn::IfThenZeroElse(hidden, gradient);
    }
    probabilities[r] = p;
    score_gradients[r] = hn::Mul(p, gradient);
  }
  const RoundedRows<group, D> p(d, probabilities), ds(d, score_gradients);
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

template <int group, class D>
HWY_INLINE void softmax_gradient_rounded(D d, SoftmaxGradient<const float> g,
                                         const RoundedGradients& to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto rows = [&](int64_t i, auto masked) HWY_ATTR {
    for (int64_t j = 0; j < g.width; j += lanes) round_gradients<group, masked>(d, i, j, g, to);
  };
  // Queries that see every key.
  const int64_t all = to.columns == g.width
                          ? std::max(to.begin, g.mask.first_query(g.width - 1, g.queries))
                          : to.end;
  const int64_t first = round_up(all, group), last = round_down(g.queries, group);
  int64_t i = to.begin;
  for (; i < std::min(first, to.end); i += group) rows(i, std::true_type());
  for (; i < last; i += group) rows(i, std::false_type());
  for (; i < to.end; i += group) rows(i, std::true_type());
}

void online_softmax_f32(const OnlineSoftmax<float>& softmax) { online_softmax_any(softmax); }
void online_softmax_f64(const OnlineSoftmax<double>& softmax) { online_softmax_any(softmax); }
void softmax_gradient_f32(const SoftmaxGradient<float>& softmax) { softmax_gradient_any(softmax); }
void softmax_gradient_f64(const SoftmaxGradient<double>& softmax) { softmax_gradient_any(softmax); }
// Groups of 4 are of vectors of 4 lanes.
void round_softmax(const OnlineSoftmax<float>& softmax, const RightPanel& panel) {
  const auto run = [s = softmax, to = panel](auto d, auto vectors, auto group)
                       HWY_ATTR { online_softmax_rounded<group, vectors>(d, s, to); };
  if (panel.group == 2) {
    with_steps<float>(softmax.width, [&](auto d, auto vectors) HWY_ATTR {
      run(d, vectors, std::integral_constant<int, 2>());
    });
  } else {
    with_steps_of(hn::CappedTag<float, 4>(), softmax.width, [&](auto d, auto vectors) HWY_ATTR {
      run(d, vectors, std::integral_constant<int, 4>());
    });
  }
}
void round_softmax_gradient(const SoftmaxGradient<const float>& softmax,
                            const RoundedGradients& to) {
  if (to.group == 2) {
    with_lanes<float>(softmax.width,
                      [&](auto d) HWY_ATTR { softmax_gradient_rounded<2>(d, softmax, to); });
  } else {
    softmax_gradient_rounded<4>(hn::CappedTag<float, 4>(), softmax, to);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu::attention {

HWY_EXPORT(online_softmax_f32);
HWY_EXPORT(online_softmax_f64);
HWY_EXPORT(softmax_gradient_f32);
HWY_EXPORT(softmax_gradient_f64);
HWY_EXPORT(round_softmax);
HWY_EXPORT(round_softmax_gradient);

void online_softmax(const OnlineSoftmax<float>& softmax) {
  HWY_DYNAMIC_DISPATCH(online_softmax_f32)(softmax);
}
void online_softmax(const OnlineSoftmax<double>& softmax) {
  HWY_DYNAMIC_DISPATCH(online_softmax_f64)(softmax);
}
void online_softmax(const OnlineSoftmax<float>& softmax, const RightPanel& to) {
  HWY_DYNAMIC_DISPATCH(round_softmax)(softmax, to);
}

void softmax_gradient(const SoftmaxGradient<float>& softmax) {
  HWY_DYNAMIC_DISPATCH(softmax_gradient_f32)(softmax);
}
void softmax_gradient(const SoftmaxGradient<double>& softmax) {
  HWY_DYNAMIC_DISPATCH(softmax_gradient_f64)(softmax);
}
void softmax_gradient(const SoftmaxGradient<const float>& softmax, const RoundedGradients& to) {
  HWY_DYNAMIC_DISPATCH(round_softmax_gradient)(softmax, to);
}

}  // namespace binade::backend::cpu::attention
#endif  // HWY_ONCE
