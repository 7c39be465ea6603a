#include <array>
#include <cmath>
#include <utility>

#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/elementwise/math.cuh"

namespace binade::backend::cuda {
namespace {

constexpr size_t ops = static_cast<size_t>(Unary::logical_not) + 1;

// A function whose kernel is its own.
template <Unary op>
struct StaticOp {
  using Value = float;
  float a, b;
  __device__ float operator()(const float (&x)[1], float) const {
    return unary_value(op, x[0], a, b);
  }
};

// All functions in one kernel.
template <class C>
struct RuntimeOp {
  using Value = C;
  Unary op;
  C a, b;
  __device__ C operator()(const C (&x)[1], C) const { return unary_value(op, x[0], a, b); }
};

template <Unary op, class T>
bool map_known(UnaryParams numbers, const TensorView& x, const TensorView& y) {
  return map_packs<T, T, StaticOp<op>, 1>(
      {static_cast<float>(numbers.a), static_cast<float>(numbers.b)}, {x}, y, false);
}

// map_known of every op for type T.
template <class T, size_t... I>
bool map_op(std::index_sequence<I...>, Unary op, UnaryParams numbers, const TensorView& x,
            const TensorView& y) {
  constexpr std::array maps{&map_known<static_cast<Unary>(I), T>...};
  return maps[static_cast<size_t>(op)](numbers, x, y);
}

bool map_dense(Unary op, UnaryParams numbers, const TensorView& x, const TensorView& y) {
  constexpr auto all = std::make_index_sequence<ops>();
  switch (x.dtype) {
    case DType::f32:
      return map_op<float>(all, op, numbers, x, y);
    case DType::f16:
      return map_op<f16>(all, op, numbers, x, y);
    case DType::bf16:
      return map_op<bf16>(all, op, numbers, x, y);
    default:
      return false;
  }
}

}  // namespace

void unary(Unary op, UnaryParams numbers, TensorView x, TensorView y) {
  if (y.numel() == 0) return;
  simplify({&x, &y});
  if (map_dense(op, numbers, x, y)) return;
  const double a = numbers.a, b = numbers.b;
  if (is_integer(x.dtype) && is_integer(y.dtype)) {
    if (!cpu::computes_on_integers(op, numbers)) {
      // double holds more integers than float does.
      return map_elements<RuntimeOp<double>, 1>({op, a, b}, {x}, y, false);
    }
    // Fractional bounds of a clamp round inwards; a scale's factors are whole.
    return map_elements<RuntimeOp<int64_t>, 1>(
        {op, cast<int64_t>(std::ceil(a)), cast<int64_t>(std::floor(b))}, {x}, y, false);
  }
  const bool wide = x.dtype == DType::f64 || (is_integer(x.dtype) && y.dtype == DType::f64);
  with_floating_type(wide, [&](auto tag) {
    using C = typename decltype(tag)::type;
    map_elements<RuntimeOp<C>, 1>({op, static_cast<C>(a), static_cast<C>(b)}, {x}, y, false);
  });
}

}  // namespace binade::backend::cuda
