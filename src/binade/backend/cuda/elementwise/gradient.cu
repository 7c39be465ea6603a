#include <array>
#include <utility>

#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/elementwise/math.cuh"

namespace binade::backend::cuda {
namespace {

constexpr size_t ops = static_cast<size_t>(Unary::logical_not) + 1;

// The gradient of a function whose kernel is its own.
template <Unary op>
struct StaticOp {
  using Value = float;
  float a, b;
  __device__ float operator()(const float (&x)[2], float old) const {
    return old + gradient_value(op, x[0], x[1], a, b);
  }
};

// Those of all functions in one kernel.
template <class C>
struct RuntimeOp {
  using Value = C;
  Unary op;
  C a, b;
  __device__ C operator()(const C (&x)[2], C old) const {
    return old + gradient_value(op, x[0], x[1], a, b);
  }
};

struct Gradient {
  UnaryParams numbers;
  TensorView dy, saved, dx;
  bool accumulate;
};

template <Unary op, class T>
bool map_known(const Gradient& g) {
  return map_packs<T, T, StaticOp<op>, 2>(
      {static_cast<float>(g.numbers.a), static_cast<float>(g.numbers.b)}, {g.dy, g.saved}, g.dx,
      g.accumulate);
}

template <class T, size_t... I>
bool map_op(std::index_sequence<I...>, Unary op, const Gradient& g) {
  constexpr std::array maps{&map_known<static_cast<Unary>(I), T>...};
  return maps[static_cast<size_t>(op)](g);
}

bool map_dense(Unary op, const Gradient& g) {
  constexpr auto all = std::make_index_sequence<ops>();
  switch (g.dy.dtype) {
    case DType::f32:
      return map_op<float>(all, op, g);
    case DType::f16:
      return map_op<f16>(all, op, g);
    case DType::bf16:
      return map_op<bf16>(all, op, g);
    default:
      return false;
  }
}

}  // namespace

void unary_backward(Unary op, UnaryParams numbers, TensorView dy, TensorView saved, TensorView dx,
                    bool accumulate) {
  if (dx.numel() == 0) return;
  simplify({&dy, &saved, &dx});
  if (map_dense(op, {numbers, dy, saved, dx, accumulate})) return;
  const bool wide =
      dy.dtype == DType::f64 || saved.dtype == DType::f64 || (accumulate && dx.dtype == DType::f64);
  with_floating_type(wide, [&](auto tag) {
    using C = typename decltype(tag)::type;
    map_elements<RuntimeOp<C>, 2>({op, static_cast<C>(numbers.a), static_cast<C>(numbers.b)},
                                  {dy, saved}, dx, accumulate);
  });
}

}  // namespace binade::backend::cuda
