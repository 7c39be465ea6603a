#include <array>
#include <utility>

#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/elementwise/math.cuh"

namespace binade::backend::cuda {
namespace {

constexpr size_t ops = static_cast<size_t>(Unary::logical_not) + 1;

// The gradient of a function with a kernel of its own.
template <Unary op>
struct StaticOp {
  using Value = float;
  float a, b;
  __device__ float operator()(const float (&x)[2], float old) const {
    return old + gradient_value(op, x[0], x[1], a, b);
  }
};

// The gradients of all functions in one kernel.
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
  UnaryParams params;
  TensorView dy, saved;
  Target dx;
};

template <Unary op, class T>
bool map_static(const Gradient& g) {
  return map_packs<T, T, StaticOp<op>, 2>(
      {static_cast<float>(g.params.a), static_cast<float>(g.params.b)}, {g.dy, g.saved}, g.dx);
}

template <class T, size_t... I>
bool map_op(std::index_sequence<I...>, Unary op, const Gradient& g) {
  constexpr std::array maps{&map_static<static_cast<Unary>(I), T>...};
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

void unary_backward(Unary op, UnaryParams params, TensorView dy, TensorView saved, Target dx) {
  if (dx.view.numel() == 0) return;
  simplify({&dy, &saved, &dx.view});
  if (map_dense(op, {params, dy, saved, dx})) return;
  const bool wide = dy.dtype == DType::f64 || saved.dtype == DType::f64 ||
                    (dx.accumulate && dx.view.dtype == DType::f64);
  with_floating_type(wide, [&](auto tag) {
    using C = typename decltype(tag)::type;
    map_elements<RuntimeOp<C>, 2>({op, static_cast<C>(params.a), static_cast<C>(params.b)},
                                  {dy, saved}, dx);
  });
}

}  // namespace binade::backend::cuda
