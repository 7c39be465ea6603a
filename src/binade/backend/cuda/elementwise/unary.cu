#include <array>
#include <cmath>
#include <utility>

#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/elementwise/math.cuh"

namespace binade::backend::cuda {
namespace {

constexpr size_t ops = static_cast<size_t>(Unary::logical_not) + 1;

// A function with a kernel of its own.
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
bool map_static(UnaryParams params, const TensorView& x, const TensorView& y) {
  return map_packs<T, T, StaticOp<op>, 1>(
      {static_cast<float>(params.a), static_cast<float>(params.b)}, {x}, {y});
}

// map_static of every op for type T.
template <class T, size_t... I>
bool map_op(std::index_sequence<I...>, Unary op, UnaryParams params, const TensorView& x,
            const TensorView& y) {
  constexpr std::array maps{&map_static<static_cast<Unary>(I), T>...};
  return maps[static_cast<size_t>(op)](params, x, y);
}

bool map_dense(Unary op, UnaryParams params, const TensorView& x, const TensorView& y) {
  constexpr auto all = std::make_index_sequence<ops>();
  switch (x.dtype) {
    case DType::f32:
      return map_op<float>(all, op, params, x, y);
    case DType::f16:
      return map_op<f16>(all, op, params, x, y);
    case DType::bf16:
      return map_op<bf16>(all, op, params, x, y);
    default:
      return false;
  }
}

}  // namespace

void unary(Unary op, UnaryParams params, TensorView x, TensorView y) {
  if (y.numel() == 0) return;
  simplify({&x, &y});
  if (map_dense(op, params, x, y)) return;
  const double a = params.a, b = params.b;
  if (is_integer(x.dtype) && is_integer(y.dtype)) {
    if (!cpu::computes_on_integers(op, params)) {
      // double holds more integers than float does.
      return map_elements<RuntimeOp<double>, 1>({op, a, b}, {x}, {y});
    }
    // Fractional bounds of a clamp are rounded inwards; a scale's factors are integers.
    return map_elements<RuntimeOp<int64_t>, 1>(
        {op, cast<int64_t>(std::ceil(a)), cast<int64_t>(std::floor(b))}, {x}, {y});
  }
  const bool wide = x.dtype == DType::f64 || (is_integer(x.dtype) && y.dtype == DType::f64);
  with_floating_type(wide, [&](auto tag) {
    using C = typename decltype(tag)::type;
    map_elements<RuntimeOp<C>, 1>({op, static_cast<C>(a), static_cast<C>(b)}, {x}, {y});
  });
}

}  // namespace binade::backend::cuda
