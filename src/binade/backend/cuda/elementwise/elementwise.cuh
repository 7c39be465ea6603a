#pragma once

#include <algorithm>
#include <array>

#include "binade/backend/cuda/common/element_access.cuh"
#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/elementwise.h"

// The loops of elementwise kernels. A function is a struct with the type Value it computes in and
// operator()(const Value (&inputs)[A], Value old), where `old` is the output's present value (0 if
// it is not read).
namespace binade::backend::cuda {

inline constexpr int elementwise_threads = 256;

template <class T, int A>
struct PackInputs {
  const T* data[A];
  Layout layouts[A];
  bool constant[A];  // along the last axis
};

template <class U>
struct PackOutput {
  U* data;
  Layout layout;
  bool reads;  // the function needs the present values
};

// One pack of every input and of the output, as stored in memory. Finding, fetching and computing
// are separate steps, so that a thread can have several packs in flight.
template <class F, int A, int N, class T, class U>
struct FetchedPacks {
  int64_t from[A], to;
  Pack<T, N> inputs[A];
  Pack<U, N> old;

  __device__ void find(const PackInputs<T, A>& x, const PackOutput<U>& y, int64_t at) {
#pragma unroll
    for (int input = 0; input < A; ++input) from[input] = offset_of(x.layouts[input], at);
    to = offset_of(y.layout, at);
  }

  __device__ void fetch(const PackInputs<T, A>& x, const PackOutput<U>& y) {
#pragma unroll
    for (int input = 0; input < A; ++input) {
      if (x.constant[input]) {
        inputs[input][0] = x.data[input][from[input]];
      } else {
        inputs[input] = load_pack<T, N>(x.data[input] + from[input]);
      }
    }
    if (y.reads) old = load_pack<U, N>(y.data + to);
  }

  __device__ void finish(const F& f, const PackInputs<T, A>& x, const PackOutput<U>& y) {
    using C = typename F::Value;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      C values[A];
#pragma unroll
      for (int input = 0; input < A; ++input)
        values[input] = cast<C>(x.constant[input] ? inputs[input][0] : inputs[input][i]);
      old[i] = cast<U>(f(values, y.reads ? cast<C>(old[i]) : C{}));
    }
    store_pack<U, N>(y.data + to, old);
  }
};

// `count` packs from `first` on, `step` apart.
template <int count, int N, class F, int A, class T, class U>
__device__ inline void map_some(const F& f, const PackInputs<T, A>& x, const PackOutput<U>& y,
                                int64_t first, int64_t step) {
  FetchedPacks<F, A, N, T, U> packs[count];
#pragma unroll
  for (int k = 0; k < count; ++k) packs[k].find(x, y, (first + k * step) * N);
#pragma unroll
  for (int k = 0; k < count; ++k) packs[k].fetch(x, y);
#pragma unroll
  for (int k = 0; k < count; ++k) packs[k].finish(f, x, y);
}

template <class F, int A, int N, int ahead, class T, class U>
__global__ void __launch_bounds__(elementwise_threads)
    packs_kernel(F f, int64_t count, const __grid_constant__ PackInputs<T, A> x,
                 const __grid_constant__ PackOutput<U> y) {
  using C = typename F::Value;
  const int64_t packs = count / N, step = item_step();
  int64_t pack = first_item();
  for (; pack + (ahead - 1) * step < packs; pack += ahead * step)
    map_some<ahead, N>(f, x, y, pack, step);
  for (; ahead > 1 && pack < packs; pack += step) map_some<1, N>(f, x, y, pack, step);
  // The end of a single axis, one element for each of the first threads.
  const int64_t at = packs * N + first_item();
  if (at >= count) return;
  C values[A];
#pragma unroll
  for (int input = 0; input < A; ++input)
    values[input] = cast<C>(x.data[input][offset_of(x.layouts[input], at)]);
  U& out = y.data[offset_of(y.layout, at)];
  out = cast<U>(f(values, y.reads ? cast<C>(out) : C{}));
}

// y = f(x...) on simplified views of types T and U, in packs; returns false, with nothing done, if
// types or strides do not allow it. A thread fetches `ahead` packs at a time: several if f is
// cheap. f sees y's present values if the target accumulates.
template <class T, class U, class F, int A, int ahead = 1>
bool map_packs(F f, const std::array<TensorView, A>& x, const Target& target) {
  const TensorView& y = target.view;
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
  launch(packs_kernel<F, A, n, ahead, T, U>, grid_for(divide_up(count, n), elementwise_threads),
         elementwise_threads, 0, f, count, inputs,
         PackOutput<U>{y.as<U>(), Layout(y), target.accumulate});
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
    const int64_t offset = offset_of(y.layout, at);
    const C old = reads ? load_as<C>(y.data, y.dtype, offset) : C{};
    store_as(y.data, y.dtype, offset, f(values, old));
  }
}

// y = f(x...) on simplified views of any types and strides.
template <class F, int A>
void map_elements(F f, const std::array<TensorView, A>& x, const Target& target) {
  const TensorView& y = target.view;
  AnyInputs<A> inputs;
  for (int i = 0; i < A; ++i) inputs.views[i] = AnyView(x[static_cast<size_t>(i)]);
  const int64_t count = y.numel();
  launch(elements_kernel<F, A>, grid_for(count, elementwise_threads), elementwise_threads, 0, f,
         count, inputs, AnyView(y), target.accumulate);
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

// The entries of ElementwiseKernels.
void unary(Unary op, UnaryParams params, TensorView x, TensorView y);
void unary_backward(Unary op, UnaryParams params, TensorView dy, TensorView saved, Target dx);
void binary(Binary op, TensorView a, TensorView b, TensorView y);
void axpby(double alpha, TensorView x, double beta, TensorView y);
void copy(TensorView x, TensorView y);
void fill(TensorView y, double value);

}  // namespace binade::backend::cuda
