#pragma once

#include <algorithm>
#include <array>

#include "binade/backend/cuda/access.cuh"
#include "binade/backend/cuda/launch.cuh"
#include "binade/backend/elementwise.h"

// The loops of elementwise kernels. A function is a struct with the type Value it computes in and
// operator()(const Value (&inputs)[A], Value old), `old` being what the output holds (0 where it is
// not read).
namespace binade::backend::cuda {

inline constexpr int elementwise_threads = 256;

template <class T, int A>
struct PackInputs {
  const T* data[A];
  Layout layouts[A];
  bool constant[A];  // along the last axis
};

template <class C, int N, class T>
__device__ inline void read_some(const T* from, int64_t n, C (&values)[N]) {
  if (n >= N) {
    const Pack<T, N> pack = load_pack<T, N>(from);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = cast<C>(pack[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = i < n ? cast<C>(from[i]) : C{};
  }
}

template <class C, int N, class T>
__device__ inline void write_some(T* to, int64_t n, const C (&values)[N]) {
  if (n >= N) {
    Pack<T, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) pack[i] = cast<T>(values[i]);
    store_pack<T, N>(to, pack);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < n) to[i] = cast<T>(values[i]);
    }
  }
}

// One pack of every input, in the type a function computes in.
template <class C, int A, int N>
struct PackValues {
  C inputs[A][N];
  C old[N];

  template <class T, class U>
  __device__ void read(const PackInputs<T, A>& x, const U* y, const Layout& y_layout, bool reads,
                       int64_t at, int64_t count) {
#pragma unroll
    for (int input = 0; input < A; ++input) {
      const T* from = x.data[input] + x.layouts[input].offset(at);
      if (x.constant[input]) {
        const C value = cast<C>(*from);
#pragma unroll
        for (int i = 0; i < N; ++i) inputs[input][i] = value;
      } else {
        read_some(from, count - at, inputs[input]);
      }
    }
    if (reads) {
      read_some(y + y_layout.offset(at), count - at, old);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) old[i] = C{};
    }
  }

  template <class F>
  __device__ void apply(const F& f) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      C values[A];
#pragma unroll
      for (int input = 0; input < A; ++input) values[input] = inputs[input][i];
      old[i] = f(values, old[i]);
    }
  }
};

template <class F, int A, int N, class T, class U>
__global__ void __launch_bounds__(elementwise_threads)
    packs_kernel(F f, int64_t count, const __grid_constant__ PackInputs<T, A> x, U* y,
                 const __grid_constant__ Layout y_layout, bool reads) {
  using C = typename F::Value;
  // Packs a thread has under way: their loads overlap.
  constexpr int ahead = A == 1 ? 2 : 1;
  const int64_t packs = ceil_div<int64_t>(count, N), step = item_step();
  for (int64_t first = first_item(); first < packs; first += ahead * step) {
    PackValues<C, A, N> values[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int64_t pack = first + k * step;
      if (pack < packs) values[k].read(x, y, y_layout, reads, pack * N, count);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int64_t pack = first + k * step;
      if (pack >= packs) break;
      values[k].apply(f);
      write_some(y + y_layout.offset(pack * N), count - pack * N, values[k].old);
    }
  }
}

// y = f(x...) on simplified views of types T and U, in packs; false, with nothing done, where types
// or strides do not allow it.
template <class T, class U, class F, int A>
bool map_packs(F f, const std::array<TensorView, A>& x, const TensorView& y, bool reads) {
  constexpr int n = static_cast<int>(access_bytes / std::min(sizeof(T), sizeof(U)));
  const int last = y.rank() - 1;
  if (y.dtype != dtype_of<U> || !lies_in_packs(y, n, alignof(Pack<U, n>))) return false;
  PackInputs<T, A> inputs;
  for (int i = 0; i < A; ++i) {
    const TensorView& view = x[static_cast<size_t>(i)];
    inputs.constant[i] = view.strides[last] == 0;
    if (view.dtype != dtype_of<T>) return false;
    if (!inputs.constant[i] && !lies_in_packs(view, n, alignof(Pack<T, n>))) return false;
    inputs.data[i] = view.as<T>();
    inputs.layouts[i] = Layout(view);
  }
  const int64_t count = y.numel();
  launch(packs_kernel<F, A, n, T, U>, grid_for(ceil_div<int64_t>(count, n), elementwise_threads),
         elementwise_threads, 0, f, count, inputs, y.as<U>(), Layout(y), reads);
  return true;
}

template <int A>
struct AnyInputs {
  AnyView views[A];
};

template <class F, int A>
__global__ void __launch_bounds__(elementwise_threads)
    elements_kernel(F f, int64_t count, const __grid_constant__ AnyInputs<A> x,
                    const __grid_constant__ AnyView y, bool reads) {
  using C = typename F::Value;
  for (int64_t at = first_item(); at < count; at += item_step()) {
    C values[A];
#pragma unroll
    for (int input = 0; input < A; ++input) values[input] = x.views[input].template load<C>(at);
    const int64_t place = y.layout.offset(at);
    const C old = reads ? load_as<C>(y.data, y.dtype, place) : C{};
    store_as(y.data, y.dtype, place, f(values, old));
  }
}

// y = f(x...) on simplified views of any types and strides.
template <class F, int A>
void map_elements(F f, const std::array<TensorView, A>& x, const TensorView& y, bool reads) {
  AnyInputs<A> inputs;
  for (int i = 0; i < A; ++i) inputs.views[i] = AnyView(x[static_cast<size_t>(i)]);
  const int64_t count = y.numel();
  launch(elements_kernel<F, A>, grid_for(count, elementwise_threads), elementwise_threads, 0, f,
         count, inputs, AnyView(y), reads);
}

inline bool is_integer(DType dtype) { return !is_floating(dtype); }

template <class F>
void with_floating_type(bool wide, F&& f) {
  if (wide) {
    f(TypeTag<double>{});
  } else {
    f(TypeTag<float>{});
  }
}

// The table's entries, as ElementwiseKernels says.
void unary(Unary op, UnaryNumbers numbers, TensorView x, TensorView y);
void unary_backward(Unary op, UnaryNumbers numbers, TensorView dy, TensorView saved, TensorView dx,
                    bool accumulate);
void binary(Binary op, TensorView a, TensorView b, TensorView y);
void axpby(double alpha, TensorView x, double beta, TensorView y);
void copy(TensorView x, TensorView y);
void fill(TensorView y, double value);

}  // namespace binade::backend::cuda
