// Loops over rows of float or double for code compiled once per instruction set. Included inside
// Highway's foreach_target, hence a guard that toggles.
#if defined(BINADE_BACKEND_CPU_VECTOR_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BINADE_BACKEND_CPU_VECTOR_ROWS_INL
#undef BINADE_BACKEND_CPU_VECTOR_ROWS_INL
#else
#define BINADE_BACKEND_CPU_VECTOR_ROWS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vector = hn::Vec<Tag<T>>;

template <class T>
inline constexpr int64_t vector_lanes = static_cast<int64_t>(hn::MaxLanes(Tag<T>()));

// A short end of a row, followed by zeros.
template <class T, int64_t size>
struct Padded {
  HWY_ALIGN T values[size] = {};

  Padded(const T* rest, int64_t count) {
    std::memcpy(values, rest, static_cast<size_t>(count) * sizeof(T));
  }
};

// out[i] = f(in[i]...), a vector at a time, four of them interleaved to hide the latency of a long
// f. The end of the row uses padded copies, so that an element's result does not depend on its
// position. `out` may be one of the inputs.
template <class T, class F, class... In>
HWY_INLINE void transform(int64_t n, T* out, F f, const In*... in) {
  static_assert((std::is_same_v<In, T> && ...));
  const Tag<T> d;
  constexpr int64_t lanes = vector_lanes<T>;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto a = f(hn::LoadU(d, in + i)...), b = f(hn::LoadU(d, in + i + lanes)...),
               c = f(hn::LoadU(d, in + i + 2 * lanes)...),
               e = f(hn::LoadU(d, in + i + 3 * lanes)...);
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + i + lanes);
    hn::StoreU(c, d, out + i + 2 * lanes);
    hn::StoreU(e, d, out + i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, in + i)...), d, out + i);
  if (i == n) return;
  const int64_t rest = n - i;
  HWY_ALIGN T last[lanes];
  hn::Store(f(hn::Load(d, Padded<T, lanes>(in + i, rest).values)...), d, last);
  std::memcpy(out + i, last, static_cast<size_t>(rest) * sizeof(T));
}

// Writes a vector back unless the row is const.
template <class T>
HWY_INLINE void write_back(Vector<T> v, T* to) {
  hn::StoreU(v, Tag<T>(), to);
}
template <class T>
HWY_INLINE void write_back(Vector<T>, const T*) {}

// Calls f(v...) with a vector of each row by reference; f may change those of non-const rows.
template <class T, class F, class... Row>
HWY_INLINE void update(int64_t n, F f, Row*... row) {
  static_assert((std::is_same_v<std::remove_const_t<Row>, T> && ...));
  constexpr int64_t lanes = vector_lanes<T>;
  const auto step = [&f](auto*... at) HWY_ATTR {
    const auto apply = [&](auto... v) HWY_ATTR {
      f(v...);
      (write_back<T>(v, at), ...);
    };
    apply(hn::LoadU(Tag<T>(), at)...);
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step((row + i)...);
  if (i == n) return;
  const int64_t rest = n - i;
  const auto finish = [&](auto&&... padded) HWY_ATTR {
    step(static_cast<Row*>(padded.values)...);
    const auto copy = [&](auto* to, const T* from) HWY_ATTR {
      if constexpr (!std::is_const_v<std::remove_pointer_t<decltype(to)>>) {
        std::memcpy(to, from, static_cast<size_t>(rest) * sizeof(T));
      }
    };
    (copy(row + i, padded.values), ...);
  };
  finish(Padded<T, lanes>(row + i, rest)...);
}

// How partial results are combined, as vectors and as scalars.
struct Plus {
  template <class T>
  static constexpr T identity = 0;
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Add(a, b);
  }
  static float join_one(float a, float b) { return a + b; }
  static double join_one(double a, double b) { return a + b; }
};

// The maximum; unspecified if one of the two is NaN.
struct Larger {
  template <class T>
  static constexpr T identity = -std::numeric_limits<T>::infinity();
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Max(a, b);
  }
  static float join_one(float a, float b) { return a < b ? b : a; }
  static double join_one(double a, double b) { return a < b ? b : a; }
};

// Partial results of a row: as many on every instruction set, 16 of f32 or 8 of f64.
template <class Op, class T>
struct Partials {
  static constexpr int64_t lanes = vector_lanes<T>;
  static constexpr int64_t width = HWY_MAX(int64_t{64 / sizeof(T)}, lanes);
  static constexpr int64_t parts = width / lanes;
  Vector<T> acc[parts];

  HWY_INLINE Partials() {
    for (auto& part : acc) part = hn::Set(Tag<T>(), Op::template identity<T>);
  }

  // Combined in a tree.
  HWY_INLINE T total() {
    for (int64_t half = parts / 2; half > 0; half /= 2) {
      for (int64_t k = 0; k < half; ++k) acc[k] = Op::join(acc[k], acc[k + half]);
    }
    HWY_ALIGN T last[lanes];
    hn::Store(acc[0], Tag<T>(), last);
    for (int64_t half = lanes / 2; half > 0; half /= 2) {
      for (int64_t k = 0; k < half; ++k) last[k] = Op::join_one(last[k], last[k + half]);
    }
    return last[0];
  }
};

// Elements per set of partial results, which bounds the rounding error of long sums. Blocks are
// combined in order.
inline constexpr int64_t reduce_block = 4096;

// Folds a row by acc = step(acc, v...).
template <class Op, class T, class F, class... In>
HWY_INLINE T reduce(int64_t n, F step, const In*... in) {
  static_assert((std::is_same_v<In, T> && ...));
  using P = Partials<Op, T>;
  const Tag<T> d;

  T total = Op::template identity<T>;
  for (int64_t begin = 0; begin < n; begin += reduce_block) {
    const int64_t end = HWY_MIN(n, begin + reduce_block);
    P partials;
    int64_t i = begin;
    for (; i + P::width <= end; i += P::width) {
      for (int64_t k = 0; k < P::parts; ++k) {
        partials.acc[k] = step(partials.acc[k], hn::LoadU(d, in + i + k * P::lanes)...);
      }
    }
    if (i < end) {
      const int64_t rest = end - i;
      const auto finish = [&](const auto&... padded) HWY_ATTR {
        for (int64_t k = 0; k < P::parts; ++k) {
          const auto valid =
              hn::FirstN(d, static_cast<size_t>(HWY_MAX(rest - k * P::lanes, int64_t{0})));
          const auto next = step(partials.acc[k], hn::Load(d, padded.values + k * P::lanes)...);
          partials.acc[k] = hn::IfThenElse(valid, next, partials.acc[k]);
        }
      };
      finish(Padded<T, P::width>(in + i, rest)...);
    }
    total = Op::join_one(total, partials.total());
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
