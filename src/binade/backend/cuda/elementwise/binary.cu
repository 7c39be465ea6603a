#include <algorithm>
#include <array>
#include <utility>

#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/elementwise/math.cuh"

namespace binade::backend::cuda {
namespace {

constexpr size_t ops = static_cast<size_t>(Binary::logical_or) + 1;

// A function with a kernel of its own.
template <Binary op>
struct StaticOp {
  using Value = float;
  __device__ float operator()(const float (&x)[2], float) const {
    return binary_value(op, x[0], x[1]);
  }
};

// All functions in one kernel.
template <class C>
struct RuntimeOp {
  using Value = C;
  Binary op;
  __device__ C operator()(const C (&x)[2], C) const { return binary_value(op, x[0], x[1]); }
};

template <Binary op, class T>
bool map_static(const TensorView& a, const TensorView& b, const TensorView& y) {
  return map_packs<T, T, StaticOp<op>, 2>({}, {a, b}, {y});
}

template <class T, size_t... I>
bool map_op(std::index_sequence<I...>, Binary op, const TensorView& a, const TensorView& b,
            const TensorView& y) {
  constexpr std::array maps{&map_static<static_cast<Binary>(I), T>...};
  return maps[static_cast<size_t>(op)](a, b, y);
}

bool map_dense(Binary op, const TensorView& a, const TensorView& b, const TensorView& y) {
  if (static_cast<size_t>(op) >= ops) return false;  // of integers only
  constexpr auto all = std::make_index_sequence<ops>();
  switch (y.dtype) {
    case DType::f32:
      return map_op<float>(all, op, a, b, y);
    case DType::f16:
      return map_op<f16>(all, op, a, b, y);
    case DType::bf16:
      return map_op<bf16>(all, op, a, b, y);
    default:
      return false;
  }
}

// x times one f32 element, which is read on the device: gradients times a loss's gradient.
struct TimesElement {
  using Value = float;
  const float* factor;
  __device__ float operator()(const float (&x)[1], float) const {
    return binary_value(Binary::mul, x[0], __ldg(factor));
  }
};

// y = a * b for a 16-bit matrix and one f32 element; false, with nothing done, for other operands.
bool multiply_by_element(const TensorView& a, const TensorView& b, const TensorView& y) {
  const bool is_element =
      std::all_of(b.strides.begin(), b.strides.end(), [](int64_t stride) { return stride == 0; });
  if (b.dtype != DType::f32 || !is_element) return false;
  const TimesElement f{b.as<const float>()};
  return map_packs<bf16, bf16, TimesElement, 1, 2>(f, {a}, {y}) ||
         map_packs<f16, f16, TimesElement, 1, 2>(f, {a}, {y});
}

template <class T>
__global__ void __launch_bounds__(elementwise_threads)
    rows_kernel(const T* x, const float* factors, T* y, int64_t packs, int packs_per_row) {
  constexpr int n = access_bytes / sizeof(T);
  for (int64_t at = first_item(); at < packs; at += item_step()) {
    const float factor = factors[at / packs_per_row];
    Pack<T, n> pack = load_pack<T, n>(x + at * n);
#pragma unroll
    for (int i = 0; i < n; ++i)
      pack[i] = cast<T>(binary_value(Binary::mul, cast<float>(pack[i]), factor));
    store_pack<T, n>(y + at * n, pack);
  }
}

template <class T>
bool multiply_rows_as(const TensorView& a, const TensorView& b, const TensorView& y) {
  constexpr int64_t n = access_bytes / sizeof(T);
  if (a.dtype != dtype_of<T> || y.dtype != dtype_of<T> || a.shape[1] % n != 0 ||
      !packs_fit<T, n>(a.data) || !packs_fit<T, n>(y.data))
    return false;
  const int64_t packs = a.numel() / n;
  launch(rows_kernel<T>, grid_for(packs, elementwise_threads), elementwise_threads, 0,
         a.as<const T>(), b.as<const float>(), y.as<T>(), packs, static_cast<int>(a.shape[1] / n));
  return true;
}

// y = a * b for dense 16-bit matrices and an f32 element for each row; false, with nothing done,
// for other operands.
bool multiply_rows(const TensorView& a, const TensorView& b, const TensorView& y) {
  if (b.dtype != DType::f32 || b.rank() != 2 || b.strides[0] != 1 || b.strides[1] != 0 ||
      !a.is_dense() || !y.is_dense() || a.shape[1] > INT32_MAX)
    return false;
  return multiply_rows_as<bf16>(a, b, y) || multiply_rows_as<f16>(a, b, y);
}

// Ops whose results on integers have a fraction, kept if the output can hold it.
bool has_fraction(Binary op) {
  return op == Binary::div || op == Binary::pow || op == Binary::atan2;
}

// alpha * x + beta * y
template <class C>
struct Axpby {
  using Value = C;
  C alpha, beta;
  __device__ C operator()(const C (&x)[1], C old) const {
    if constexpr (std::is_integral_v<C>) {
      return wrapping_add(wrapping_mul(alpha, x[0]), wrapping_mul(beta, old));
    } else {
      return std::fma(alpha, x[0], beta * old);
    }
  }
};

// The types of gradients and their sums: 16-bit and f32 in any mixture.
bool axpby_dense(Axpby<float> f, const TensorView& x, const Target& y) {
  return map_packs<float, float, Axpby<float>, 1, 2>(f, {x}, y) ||
         map_packs<bf16, bf16, Axpby<float>, 1, 2>(f, {x}, y) ||
         map_packs<f16, f16, Axpby<float>, 1, 2>(f, {x}, y) ||
         map_packs<bf16, float, Axpby<float>, 1, 2>(f, {x}, y) ||
         map_packs<f16, float, Axpby<float>, 1, 2>(f, {x}, y) ||
         map_packs<float, bf16, Axpby<float>, 1, 2>(f, {x}, y) ||
         map_packs<float, f16, Axpby<float>, 1, 2>(f, {x}, y);
}

}  // namespace

void binary(Binary op, TensorView a, TensorView b, TensorView y) {
  if (y.numel() == 0) return;
  simplify({&a, &b, &y});
  if (map_dense(op, a, b, y)) return;
  if (op == Binary::mul && (multiply_by_element(a, b, y) || multiply_rows(a, b, y))) return;
  const bool integers = is_integer(a.dtype) && is_integer(b.dtype);
  if (integers && !(has_fraction(op) && is_floating(y.dtype)) && op != Binary::atan2) {
    return map_elements<RuntimeOp<int64_t>, 2>({op}, {a, b}, {y});
  }
  const bool wide =
      a.dtype == DType::f64 || b.dtype == DType::f64 || (integers && y.dtype == DType::f64);
  with_floating_type(wide, [&](auto tag) {
    map_elements<RuntimeOp<typename decltype(tag)::type>, 2>({op}, {a, b}, {y});
  });
}

void axpby(double alpha, TensorView x, double beta, TensorView y) {
  if (y.numel() == 0) return;
  if (alpha == 1 && beta == 0) return copy(x, y);
  simplify({&x, &y});
  const Target target{y, beta != 0};
  const Axpby<float> narrow{static_cast<float>(alpha), static_cast<float>(beta)};
  if (axpby_dense(narrow, x, target)) return;
  const bool integers = is_integer(x.dtype) && is_integer(y.dtype);
  if (integers && cpu::computes_on_integers(Unary::scale, {alpha, beta})) {
    return map_elements<Axpby<int64_t>, 1>({cast<int64_t>(alpha), cast<int64_t>(beta)}, {x},
                                           target);
  }
  if (integers || x.dtype == DType::f64 || y.dtype == DType::f64) {
    return map_elements<Axpby<double>, 1>({alpha, beta}, {x}, target);
  }
  map_elements<Axpby<float>, 1>(narrow, {x}, target);
}

}  // namespace binade::backend::cuda
