#include "binade/backend/cuda/step/multi_tensor_gradients.h"

#include <cmath>
#include <map>

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/multi_tensor.cuh"
#include "binade/backend/exchange.h"

namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;
constexpr int in_flight = 4;  // packs that a thread loads at a time
constexpr int64_t chunk = gpu_norm_piece;
constexpr int capacity = 128;

struct GradientTensor {
  void* data;
  int64_t count;
  int index;       // among all gradients
  int first_part;  // of its norm
};
using GradientList = TensorList<GradientTensor, capacity, chunk>;

struct GradientKind {
  DType dtype;
  bool aligned;
  auto operator<=>(const GradientKind&) const = default;
};

int pack_of(const GradientKind& kind) {
  if (!kind.aligned) return 1;
  return kind.dtype == DType::f32 ? 4 : 8;
}

// Calls start(kind, list) for lists of gradients of the same kind; together they hold every
// gradient once.
template <class F>
void for_each_kind(const char* op, std::span<const TensorView> gradients, F run) {
  std::map<GradientKind, GradientList> lists;
  int index = 0, first_part = 0;
  for (const TensorView& gradient : gradients) {
    require_compute(op, {&gradient});
    const GradientKind kind{gradient.dtype, reinterpret_cast<uintptr_t>(gradient.data) % 16 == 0};
    GradientList& list = lists[kind];
    list.add({gradient.data, gradient.numel(), index++, first_part});
    first_part += static_cast<int>(divide_up(gradient.numel(), chunk));
    if (list.full()) {
      run(kind, list);
      list = {};
    }
  }
  for (const auto& [kind, list] : lists) run(kind, list);
}

// for_each_kind() that calls start(packing, dtype, list).
template <class F>
void for_each_list(const char* op, std::span<const TensorView> gradients, F start) {
  for_each_kind(op, gradients, [&](const GradientKind& kind, const GradientList& list) {
    with_packing(kind.dtype, pack_of(kind),
                 [&](auto packing) { start(packing, kind.dtype, list); });
  });
}

// Calls f(first element, values) for this thread's packs of [begin, end) and, with one value, for
// the elements after the last pack. Packs that are not aligned are loaded by element.
template <class C, int N, bool Aligned = true, class F>
__device__ void each_value(const Operand& x, int64_t begin, int64_t end, F f) {
  const int64_t packs_end = end - (end - begin) % N;
  constexpr int64_t step = int64_t{threads} * N;
  for (int64_t at = begin + threadIdx.x * N; at < packs_end; at += in_flight * step) {
    if constexpr (Aligned) {
      Fetched<C, N> fetched[in_flight];
#pragma unroll
      for (int k = 0; k < in_flight; ++k)
        if (at + k * step < packs_end) fetched[k] = fetch<C, N>(x, at + k * step);
#pragma unroll
      for (int k = 0; k < in_flight; ++k) {
        if (at + k * step >= packs_end) continue;
        C values[N];
        widen(fetched[k], x.dtype, values);
        f(at + k * step, values);
      }
    } else {
      for (int64_t here = at; here < packs_end && here < at + in_flight * step; here += step) {
        C values[N];
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = load_one<C>(x, here + i);
        f(here, values);
      }
    }
  }
  if constexpr (N > 1) {
    const int64_t at = packs_end + threadIdx.x;
    if (at >= end) return;
    C value[1] = {load_one<C>(x, at)};
    f(at, value);
  }
}

// ---- the norm, in f64, in which the square of an f32 cannot overflow ----

enum class NormPower : uint8_t { one, two, infinity, other };

NormPower power_of(double p) {
  if (p == 1) return NormPower::one;
  if (p == 2) return NormPower::two;
  return std::isinf(p) ? NormPower::infinity : NormPower::other;
}

struct Norm {
  NormPower power;
  double p;

  // The total with more elements added.
  template <class C, int N>
  __device__ double add(double total, const C (&values)[N]) const {
    const auto each = [&](auto f) {
#pragma unroll
      for (int i = 0; i < N; ++i) f(static_cast<double>(fabs(values[i])));
    };
    switch (power) {
      case NormPower::one:
        each([&](double x) { total += x; });
        break;
      case NormPower::two:
        each([&](double x) { total += x * x; });
        break;
      case NormPower::infinity:
        each([&](double x) { total = Max()(total, x); });
        break;
      case NormPower::other:
        each([&](double x) { total += pow(x, p); });
    }
    return total;
  }
  __device__ double join(double a, double b) const {
    return power == NormPower::infinity ? Max()(a, b) : a + b;
  }
  __device__ double join_block(double value, double* scratch) const {
    return power == NormPower::infinity ? reduce_block(value, Max(), 0.0, scratch)
                                        : reduce_block(value, Sum(), 0.0, scratch);
  }
  __device__ double result(double total) const {
    if (power == NormPower::two) return sqrt(total);
    return power == NormPower::other ? pow(total, 1 / p) : total;
  }
};

struct NormParts {
  GradientList list;
  DType dtype;
  Norm norm;
  double* parts;  // one per chunk of every gradient, in their order
  Operand found_inf;
};

template <class C, int N, bool Aligned = true>
__global__ void __launch_bounds__(threads) norm_kernel(const __grid_constant__ NormParts a) {
  static_assert(sizeof(NormParts) <= parameter_bytes);
  __shared__ double scratch[warp_size];
  const auto [item, begin, end] = a.list.part(blockIdx.x);
  double total = 0;
  bool finite = true;
  const Operand gradient(a.list.items[item].data, a.dtype);
  each_value<C, N, Aligned>(gradient, begin, end, [&]<int M>(int64_t, const C(&values)[M]) {
#pragma unroll
    for (int i = 0; i < M; ++i) finite = finite && isfinite(values[i]);
    total = a.norm.add(total, values);
  });
  total = a.norm.join_block(total, scratch);
  if (threadIdx.x == 0) a.parts[a.list.items[item].first_part + begin / chunk] = total;
  // All threads that write write the same value.
  if (!finite && a.found_inf) store_one(a.found_inf, 0, 1.0f);
}

constexpr int finish_threads = 1024;

__global__ void __launch_bounds__(finish_threads)
    finish_norm(const double* parts, int64_t count, Norm norm, Operand result) {
  __shared__ double scratch[warp_size];
  double total = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += finish_threads) total = norm.join(total, parts[i]);
  total = norm.join_block(total, scratch);
  if (threadIdx.x == 0) store_one(result, 0, norm.result(total));
}

// A part of an f32 gradient may begin anywhere, but its sum must be that of the aligned whole.
void write_norm_parts(const char* op, std::span<const TensorView> gradients, Norm norm,
                      double* parts, TensorView found_inf) {
  for_each_kind(op, gradients, [&](const GradientKind& kind, const GradientList& list) {
    const NormParts arguments{list, kind.dtype, norm, parts, found_inf};
    if (kind.dtype == DType::f32 && !kind.aligned)
      return launch(norm_kernel<float, 4, false>, list.blocks(), threads, 0, arguments);
    with_packing(kind.dtype, pack_of(kind), [&](auto packing) {
      using P = decltype(packing);
      launch(norm_kernel<typename P::type, P::size>, list.blocks(), threads, 0, arguments);
    });
  });
}

// ---- scaling ----

struct Unscale {
  GradientList list;
  DType dtype;
  const float* factor;
  Operand found_inf;
  int* first_bad;
};

template <class C, int N>
__global__ void __launch_bounds__(threads) unscale_kernel(const __grid_constant__ Unscale a) {
  static_assert(sizeof(Unscale) <= parameter_bytes);
  const C factor = static_cast<C>(*a.factor);
  // A norm below the limit clips nothing: no pass over the gradients is needed.
  if (factor == C{1} && !a.found_inf) return;
  const auto [item, begin, end] = a.list.part(blockIdx.x);
  const Operand gradient(a.list.items[item].data, a.dtype);
  bool finite = true;
  each_value<C, N>(gradient, begin, end, [&]<int M>(int64_t at, C(&values)[M]) {
#pragma unroll
    for (int i = 0; i < M; ++i) {
      finite = finite && isfinite(values[i]);
      values[i] *= factor;
    }
    store(gradient, at, values);
  });
  if (finite || !a.found_inf) return;
  store_one(a.found_inf, 0, 1.0f);
  if (a.first_bad != nullptr) atomicMin(a.first_bad, a.list.items[item].index);
}

__global__ void clip_factor_kernel(Operand norm, float max_norm, Operand factor) {
  const float ratio = max_norm / (load_one<float>(norm, 0) + 1e-6f);
  store_one(factor, 0, ratio > 1 ? 1.0f : ratio);  // NaN stays NaN
}

}  // namespace

void gradient_norm(std::span<const TensorView> gradients, double p, TensorView norm,
                   TensorView found_inf) {
  require_compute("gradient_norm", {&norm, &found_inf});
  int64_t blocks = 0;
  for (const TensorView& gradient : gradients) blocks += divide_up(gradient.numel(), chunk);
  const Tensor parts = workspace({blocks}, DType::f64);
  auto* out = static_cast<double*>(parts.raw_data());
  const Norm kind{power_of(p), p};
  write_norm_parts("gradient_norm", gradients, kind, out, found_inf);
  launch(finish_norm, 1, finish_threads, 0, out, blocks, kind, norm);
}

void gradient_norm_parts(std::span<const TensorView> gradients, TensorView parts,
                         TensorView found_inf) {
  require_compute("gradient_norm_parts", {&found_inf});
  write_norm_parts("gradient_norm_parts", gradients, Norm{NormPower::two, 2}, parts.as<double>(),
                   found_inf);
}

void join_norm_parts(TensorView parts, TensorView norm) {
  require_compute("join_norm_parts", {&norm});
  launch(finish_norm, 1, finish_threads, 0, parts.as<double>(), parts.numel(),
         Norm{NormPower::two, 2}, norm);
}

void unscale(std::span<const TensorView> gradients, TensorView factor, TensorView found_inf,
             TensorView first_bad) {
  require_compute("unscale", {&found_inf});
  for_each_list("unscale", gradients, [&](auto packing, DType dtype, const GradientList& list) {
    using P = decltype(packing);
    launch(unscale_kernel<typename P::type, P::size>, list.blocks(), threads, 0,
           Unscale{list, dtype, factor.as<float>(), found_inf, first_bad.as<int>()});
  });
}

void clip_factor(TensorView norm, double max_norm, TensorView factor) {
  require_compute("clip_factor", {&norm, &factor});
  launch(clip_factor_kernel, 1, 1, 0, norm, static_cast<float>(max_norm), factor);
}

}  // namespace binade::backend::cuda
