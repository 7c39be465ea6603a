#include "binade/backend/loss.h"

#include <algorithm>
#include <limits>

#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/operand.cuh"
#include "binade/backend/cuda/reduce.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int max_threads = 512;
constexpr int in_flight = 4;  // packs a thread has on their way at a time

struct Targets {
  const void* data;
  bool wide;  // i64

  __device__ int64_t operator[](int64_t row) const {
    return wide ? static_cast<const int64_t*>(data)[row] : static_cast<const int32_t*>(data)[row];
  }
};

Targets targets_of(const char* op, const TensorView& target) {
  if (target.dtype != DType::i64 && target.dtype != DType::i32) {
    fail(
        op,
        {.argument = "target", .expected = "i64 or i32", .found = std::string(name(target.dtype))});
  }
  return {target.data, target.dtype == DType::i64};
}

// e^x as exact as the elements it is made of: 16-bit ones need no more than the chip's own.
template <class C, int N>
__device__ C exp_of(C x) {
  if constexpr (N == 8) {
    constexpr float log2_e = 1.4426950408889634f;
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * log2_e));
    return y;
  } else {
    return exp(x);
  }
}

// A row of any length at any address: a few single elements up to the first 16-byte boundary,
// packs, and a few more.
template <int N>
struct RowSpan {
  int64_t head, body_end, size;

  // Rows of `classes` elements; `address` is where the row begins.
  __device__ RowSpan(const void* address, int bytes, int64_t classes) : size(classes) {
    constexpr int line = 16;
    const int past = static_cast<int>(reinterpret_cast<uintptr_t>(address) % line);
    head = N == 1 || past == 0 ? 0 : (line - past) / bytes;
    if (head > size) head = size;
    body_end = head + (size - head) / N * N;
  }

  // Calls single(column) for this thread's elements outside of packs.
  template <class Single>
  __device__ void each_single(Single single) const {
    if constexpr (N == 1) return;
    if (threadIdx.x < head) single(static_cast<int64_t>(threadIdx.x));
    if (body_end + threadIdx.x < size) single(body_end + threadIdx.x);
  }

  // Calls f(column, fetched) for this thread's packs of `x`, several read before the first is used.
  template <class C, class F>
  __device__ void each_pack(const Operand& x, int64_t base, F f) const {
    const int64_t step = static_cast<int64_t>(blockDim.x) * N;
    for (int64_t first = head + static_cast<int64_t>(threadIdx.x) * N; first < body_end;
         first += in_flight * step) {
      Fetched<C, N> fetched[in_flight];
#pragma unroll
      for (int k = 0; k < in_flight; ++k)
        if (first + k * step < body_end) fetched[k] = fetch<C, N>(x, base + first + k * step);
#pragma unroll
      for (int k = 0; k < in_flight; ++k)
        if (first + k * step < body_end) f(first + k * step, fetched[k]);
    }
  }
};

__device__ const void* address_of(const Operand& x, int64_t at) {
  return static_cast<const char*>(x.data) + at * (x.dtype == DType::f64   ? 8
                                                  : x.dtype == DType::f32 ? 4
                                                                          : 2);
}

// ---- forward ----

// The largest value so far and the sum of e^(x - largest).
template <class C, int N>
struct ExpSum {
  C largest = -std::numeric_limits<C>::infinity();
  C sum = 0;

  template <int M>
  __device__ void add(const C (&values)[M]) {
    C top = values[0];
#pragma unroll
    for (int i = 1; i < M; ++i) top = fmax(top, values[i]);
    if (top > largest) {
      sum *= exp_of<C, N>(largest - top);
      largest = top;
    }
    // While all are -infinity each adds nothing, whatever it is compared with.
    const C shift = largest == -std::numeric_limits<C>::infinity() ? C{0} : largest;
#pragma unroll
    for (int i = 0; i < M; ++i) sum += exp_of<C, N>(values[i] - shift);
  }
};

template <class C>
struct CrossEntropy {
  Operand logits;
  Targets targets;
  int64_t ignore_index, classes;
  C smoothing, rest;  // rest = 1 - smoothing
  Operand losses, lse;
};

template <class C, int N>
__global__ void __launch_bounds__(max_threads)
    cross_entropy_kernel(const __grid_constant__ CrossEntropy<C> a) {
  __shared__ C scratch[warp_size];
  const int64_t row = blockIdx.x, base = row * a.classes;
  const RowSpan<N> span(address_of(a.logits, base), N == 8 ? 2 : 4, a.classes);
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  ExpSum<C, N> own;
  span.each_single([&](int64_t column) { own.add({load_one<C>(a.logits, base + column)}); });
  span.template each_pack<C>(a.logits, base, [&](int64_t, const Fetched<C, N>& fetched) {
    C values[N];
    widen(fetched, a.logits.dtype, values);
    own.add(values);
  });
  const C largest = reduce_block(own.largest, Max(), lowest, scratch);
  const C sum = reduce_block(own.sum * exp_of<C, N>(own.largest - largest), Sum(), C{0}, scratch);
  const C log_sum = log(sum);
  C gaps = 0;
  if (a.smoothing > 0) {
    span.each_single(
        [&](int64_t column) { gaps += largest - load_one<C>(a.logits, base + column); });
    span.template each_pack<C>(a.logits, base, [&](int64_t, const Fetched<C, N>& fetched) {
      C values[N];
      widen(fetched, a.logits.dtype, values);
#pragma unroll
      for (int i = 0; i < N; ++i) gaps += largest - values[i];
    });
    gaps = reduce_block(gaps, Sum(), C{0}, scratch);
  }
  if (threadIdx.x != 0) return;
  store_one(a.lse, row, largest + log_sum);
  const int64_t label = a.targets[row];
  C loss = 0;
  if (label != a.ignore_index) {
    // A label that is no class costs NaN: nothing else can tell from here.
    const bool valid = label >= 0 && label < a.classes;
    const C chosen =
        valid ? load_one<C>(a.logits, base + label) : std::numeric_limits<C>::quiet_NaN();
    // Differences from the largest first: they are small where the loss is.
    loss = (largest - chosen) + log_sum;
    if (a.smoothing > 0)
      loss = a.rest * loss + a.smoothing * (gaps / static_cast<C>(a.classes) + log_sum);
  }
  store_one(a.losses, row, loss);
}

// Threads for a row of so many packs.
unsigned threads_for(int64_t packs) {
  const int64_t wanted = warp_size * ceil_div<int64_t>(packs, in_flight * warp_size);
  return static_cast<unsigned>(std::clamp<int64_t>(wanted, warp_size, max_threads));
}

// Rows may begin anywhere, as long as those of all tensors lie alike.
int row_pack(std::initializer_list<const TensorView*> views) {
  const TensorView& first = **views.begin();
  const auto past = [](const TensorView* view) {
    return reinterpret_cast<uintptr_t>(view->data) % 16;
  };
  for (const TensorView* view : views) {
    if (view->dtype != first.dtype || past(view) != past(&first)) return 1;
    if (past(view) % size_of(view->dtype) != 0) return 1;
  }
  return first.dtype == DType::f64 ? 1 : first.dtype == DType::f32 ? 4 : 8;
}

void cross_entropy(TensorView logits, TensorView target, double smoothing, int64_t ignore_index,
                   TensorView losses, TensorView lse) {
  const Targets targets = targets_of("cross_entropy", target);
  require_compute("cross_entropy", {&logits, &losses, &lse});
  const int64_t classes = logits.shape.back();
  with_packing(logits.dtype, row_pack({&logits}), [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    const CrossEntropy<C> a{logits,
                            targets,
                            ignore_index,
                            classes,
                            static_cast<C>(smoothing),
                            static_cast<C>(1 - smoothing),
                            losses,
                            lse};
    launch(cross_entropy_kernel<C, P::size>, static_cast<unsigned>(target.numel()),
           threads_for(classes / P::size), 0, a);
  });
}

// ---- backward ----

template <class C>
struct CrossEntropyBackward {
  Operand dlosses, logits;
  Targets targets;
  int64_t ignore_index, classes;
  Operand lse;
  C rest, share;  // of the target, and of every class where it is smoothed
  Operand dlogits;
};

template <class C, int N>
__global__ void __launch_bounds__(max_threads)
    cross_entropy_backward_kernel(const __grid_constant__ CrossEntropyBackward<C> a) {
  const int64_t row = blockIdx.x, base = row * a.classes, label = a.targets[row];
  const RowSpan<N> span(address_of(a.logits, base), N == 8 ? 2 : 4, a.classes);
  const bool ignored = label == a.ignore_index;
  const C nan = std::numeric_limits<C>::quiet_NaN();
  const C gradient = label >= 0 && label < a.classes ? load_one<C>(a.dlosses, row) : nan;
  const C normalizer = load_one<C>(a.lse, row), share = a.share * gradient,
          chosen = a.rest * gradient;
  const auto slope = [&](C value) {
    return ignored ? C{0} : exp_of<C, N>(value - normalizer) * gradient - share;
  };
  span.each_single([&](int64_t column) {
    C value = slope(load_one<C>(a.logits, base + column));
    if (column == label && !ignored) value -= chosen;
    store_one(a.dlogits, base + column, value);
  });
  span.template each_pack<C>(a.logits, base, [&](int64_t column, const Fetched<C, N>& fetched) {
    C values[N];
    widen(fetched, a.logits.dtype, values);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = slope(values[i]);
    if (label >= column && label < column + N && !ignored) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        if (column + i == label) values[i] -= chosen;
    }
    store(a.dlogits, base + column, values);
  });
}

void cross_entropy_backward(TensorView dlosses, TensorView logits, TensorView target,
                            TensorView lse, double smoothing, int64_t ignore_index,
                            TensorView dlogits) {
  const Targets targets = targets_of("cross_entropy_backward", target);
  require_compute("cross_entropy_backward", {&dlosses, &logits, &lse, &dlogits});
  const int64_t classes = logits.shape.back();
  with_packing(logits.dtype, row_pack({&logits, &dlogits}), [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    const CrossEntropyBackward<C> a{dlosses,
                                    logits,
                                    targets,
                                    ignore_index,
                                    classes,
                                    lse,
                                    static_cast<C>(1 - smoothing),
                                    static_cast<C>(smoothing / static_cast<double>(classes)),
                                    dlogits};
    launch(cross_entropy_backward_kernel<C, P::size>, static_cast<unsigned>(target.numel()),
           threads_for(classes / P::size), 0, a);
  });
}

// ---- counting ----

constexpr int count_threads = 1024;

__global__ void __launch_bounds__(count_threads)
    count_kernel(Targets targets, int64_t rows, int64_t ignore_index, Operand count) {
  __shared__ int64_t scratch[warp_size];
  int64_t found = 0;
#pragma unroll 4
  for (int64_t row = threadIdx.x; row < rows; row += count_threads)
    found += targets[row] != ignore_index ? 1 : 0;
  found = reduce_block(found, Sum(), int64_t{0}, scratch);
  if (threadIdx.x == 0) store_one(count, 0, static_cast<float>(found));
}

void count_targets(TensorView target, int64_t ignore_index, TensorView count) {
  const Targets targets = targets_of("count_targets", target);
  require_compute("count_targets", {&count});
  launch(count_kernel, 1, count_threads, 0, targets, target.numel(), ignore_index, count);
}

}  // namespace

const LossKernels loss_kernels{.cross_entropy = cross_entropy,
                               .cross_entropy_backward = cross_entropy_backward,
                               .count_targets = count_targets};

}  // namespace binade::backend::cuda
