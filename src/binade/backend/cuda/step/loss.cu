#include "binade/backend/loss.h"

#include <algorithm>
#include <limits>

#include "binade/backend/cuda/common/async_copy.cuh"
#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/fast_math.cuh"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/matmul/epilogue.h"
#include "binade/backend/cuda/quantize/tile.cuh"
#include "binade/backend/cuda/step/targets.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int max_threads = 512;
constexpr int in_flight = 4;  // packs that a thread loads at a time
constexpr int line = 16;      // bytes of a pack

// e^x as accurate as the elements: for 16-bit ones the hardware's approximation suffices.
template <class C, int N>
__device__ C exp_of(C x) {
  if constexpr (N == 8) {
    return fast_exp2(x * log2_e);
  } else {
    return exp(x);
  }
}

// A row of any length at any address: single elements up to the first 16-byte boundary, packs, and
// single elements at the end.
template <int N>
struct RowSpan {
  int64_t head, body_end, size;

  // `address` is that of the row's first element.
  __device__ RowSpan(const void* address, int bytes, int64_t classes) : size(classes) {
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

  // Calls f(column) for this thread's packs.
  template <class F>
  __device__ void each_pack(F f) const {
    const int64_t step = static_cast<int64_t>(blockDim.x) * N;
    for (int64_t column = head + static_cast<int64_t>(threadIdx.x) * N; column < body_end;
         column += step)
      f(column);
  }

  // Calls f(column, fetched) for this thread's packs of `x`; reads several before the first is
  // used.
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

__device__ char* address_of(const Operand& x, int64_t at) {
  return static_cast<char*>(x.data) + at * (x.dtype == DType::f64   ? 8
                                            : x.dtype == DType::f32 ? 4
                                                                    : 2);
}

// ---- a row's loss ----

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
    // If all are -infinity each adds 0, whatever finite number is subtracted.
    const C shift = largest == -std::numeric_limits<C>::infinity() ? C{0} : largest;
#pragma unroll
    for (int i = 0; i < M; ++i) sum += exp_of<C, N>(values[i] - shift);
  }
};

template <class C>
struct RowSums {
  C largest, log_sum;  // log_sum of e^(x - largest)
  C gaps;              // sum of largest - x, if labels are smoothed

  __device__ C normalizer() const { return largest + log_sum; }
};

// The sums of the row at x[base], in every thread.
template <class C, int N>
__device__ RowSums<C> sum_row(const RowSpan<N>& span, const Operand& x, int64_t base, bool smoothed,
                              C* scratch) {
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  ExpSum<C, N> own;
  span.each_single([&](int64_t column) { own.add({load_one<C>(x, base + column)}); });
  span.template each_pack<C>(x, base, [&](int64_t, const Fetched<C, N>& fetched) {
    C values[N];
    widen(fetched, x.dtype, values);
    own.add(values);
  });
  const C largest = reduce_block(own.largest, Max(), lowest, scratch);
  const C sum = reduce_block(own.sum * exp_of<C, N>(own.largest - largest), Sum(), C{0}, scratch);
  C gaps = 0;
  if (smoothed) {
    span.each_single([&](int64_t column) { gaps += largest - load_one<C>(x, base + column); });
    span.template each_pack<C>(x, base, [&](int64_t, const Fetched<C, N>& fetched) {
      C values[N];
      widen(fetched, x.dtype, values);
#pragma unroll
      for (int i = 0; i < N; ++i) gaps += largest - values[i];
    });
    gaps = reduce_block(gaps, Sum(), C{0}, scratch);
  }
  return {largest, log(sum), gaps};
}

template <class C>
struct CrossEntropy {
  Operand logits;
  Targets targets;
  int64_t ignore_index, classes, row_stride;
  C smoothing, rest;  // rest = 1 - smoothing
  C per_class;        // smoothing / classes: every class's part of the smoothed target
  Operand losses = {}, lse;

  __device__ bool names_class(int64_t label) const { return label >= 0 && label < classes; }

  // The logit of a row's label; NaN, and so the loss, if the label is not a class: a kernel cannot
  // throw.
  __device__ C label_logit(int64_t row, int64_t label) const {
    return names_class(label) ? load_one<C>(logits, row * row_stride + label)
                              : std::numeric_limits<C>::quiet_NaN();
  }

  __device__ C loss(const RowSums<C>& sums, C label_logit) const {
    // Subtracts from the largest first: the difference is small if the loss is.
    const C loss = (sums.largest - label_logit) + sums.log_sum;
    if (smoothing == 0) return loss;
    return rest * loss + smoothing * (sums.gaps / static_cast<C>(classes) + sums.log_sum);
  }
};

// Args: CrossEntropyForward or CrossEntropyBackward.
template <class C, class Args>
CrossEntropy<C> describe(const Targets& targets, const Args& args) {
  const int64_t classes = args.logits.shape.back();
  return {.logits = args.logits,
          .targets = targets,
          .ignore_index = args.ignore_index,
          .classes = classes,
          .row_stride = args.logits.strides[0],
          .smoothing = static_cast<C>(args.smoothing),
          .rest = static_cast<C>(1 - args.smoothing),
          .per_class = static_cast<C>(args.smoothing / static_cast<double>(classes)),
          .lse = args.lse};
}

template <class C, int N>
__global__ void __launch_bounds__(max_threads)
    cross_entropy_kernel(const __grid_constant__ CrossEntropy<C> a) {
  __shared__ C scratch[warp_size];
  const int64_t row = blockIdx.x, base = row * a.row_stride;
  const RowSpan<N> span(address_of(a.logits, base), N == 8 ? 2 : 4, a.classes);
  const RowSums<C> sums = sum_row(span, a.logits, base, a.smoothing > 0, scratch);
  if (threadIdx.x != 0) return;
  store_one(a.lse, row, sums.normalizer());
  const int64_t label = a.targets[row];
  store_one(a.losses, row,
            label == a.ignore_index ? C{0} : a.loss(sums, a.label_logit(row, label)));
}

// Threads for a row of `packs`.
unsigned threads_for(int64_t packs) {
  const int64_t busy = warp_size * divide_up(packs, in_flight * warp_size);
  return static_cast<unsigned>(std::clamp<int64_t>(busy, warp_size, max_threads));
}

// The pack size for rows at any address, if those of all tensors have the same alignment.
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

void cross_entropy(const CrossEntropyForward& args) {
  const Targets targets = targets_of("cross_entropy", args.target);
  require_compute("cross_entropy", {&args.logits, &args.losses, &args.lse});
  with_packing(args.logits.dtype, row_pack({&args.logits}), [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    CrossEntropy<C> a = describe<C>(targets, args);
    a.losses = args.losses;
    launch(cross_entropy_kernel<C, P::size>, static_cast<unsigned>(args.target.numel()),
           threads_for(a.classes / P::size), 0, a);
  });
}

// ---- a row's gradient ----

template <class C, int N>
struct RowGradient {
  int64_t label;
  bool ignored;
  C gradient, normalizer;
  C per_class, at_label;  // subtracted for every class, and for the label too

  __device__ RowGradient(const CrossEntropy<C>& a, int64_t label, C loss_gradient, C normalizer)
      : label(label),
        ignored(label == a.ignore_index),
        gradient(a.names_class(label) ? loss_gradient : std::numeric_limits<C>::quiet_NaN()),
        normalizer(normalizer),
        per_class(a.per_class * gradient),
        at_label(a.rest * gradient) {}

  // The gradient of a logit of another class than the label's.
  __device__ C of_logit(C value) const {
    return ignored ? C{0} : exp_of<C, N>(value - normalizer) * gradient - per_class;
  }

  // Writes the gradients of the row x[from...] by write(column, values).
  template <class Write>
  __device__ void each(const RowSpan<N>& span, const Operand& x, int64_t from, Write write) const {
    span.each_single([&](int64_t column) {
      C value = of_logit(load_one<C>(x, from + column));
      if (column == label && !ignored) value -= at_label;
      C one[1] = {value};
      write(column, one);
    });
    span.template each_pack<C>(x, from, [&](int64_t column, const Fetched<C, N>& fetched) {
      C values[N];
      widen(fetched, x.dtype, values);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = of_logit(values[i]);
      if (label >= column && label < column + N && !ignored) {
#pragma unroll
        for (int i = 0; i < N; ++i)
          if (column + i == label) values[i] -= at_label;
      }
      write(column, values);
    });
  }

  // dx[to...] from x[from...]; they may be the same.
  __device__ void write(const RowSpan<N>& span, const Operand& x, int64_t from, const Operand& dx,
                        int64_t to) const {
    each(span, x, from, [&](int64_t column, auto& values) { store(dx, to + column, values); });
  }
};

// Absent dlosses are 1.
template <class C, int N>
__global__ void __launch_bounds__(max_threads)
    cross_entropy_backward_kernel(const __grid_constant__ CrossEntropy<C> a, Operand dlosses,
                                  Operand dlogits) {
  const int64_t row = blockIdx.x, base = row * a.row_stride;
  const RowSpan<N> span(address_of(a.logits, base), N == 8 ? 2 : 4, a.classes);
  const C loss_gradient = dlosses ? load_one<C>(dlosses, row) : C{1};
  RowGradient<C, N>(a, a.targets[row], loss_gradient, load_one<C>(a.lse, row))
      .write(span, a.logits, base, dlogits, base);
}

void cross_entropy_backward(const CrossEntropyBackward& args) {
  const Targets targets = targets_of("cross_entropy_backward", args.target);
  require_compute("cross_entropy_backward",
                  {&args.dlosses, &args.logits, &args.lse, &args.dlogits});
  with_packing(args.logits.dtype, row_pack({&args.logits, &args.dlogits}), [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    const CrossEntropy<C> a = describe<C>(targets, args);
    launch(cross_entropy_backward_kernel<C, P::size>, static_cast<unsigned>(args.target.numel()),
           threads_for(a.classes / P::size), 0, a, args.dlosses, args.dlogits);
  });
}

// ---- both at once: the row is kept in shared memory until its sums are known ----

// Copies the row at x[base] to `held`. A thread copies the elements it reads later, so none waits
// for another.
template <class C, int N>
__device__ void hold_row(const RowSpan<N>& span, const Operand& x, int64_t base,
                         const Operand& held) {
  span.each_pack([&](int64_t column) {
    copy_async(address_of(held, column), address_of(x, base + column), true);
  });
  span.each_single([&](int64_t column) { store_one(held, column, load_one<C>(x, base + column)); });
  wait_copies();
}

// Quantized gradients.
struct GradientOutput {
  const float* scale;
  uint8_t* data;  // null: the logits become their gradients
  DType dtype;
  int64_t row_stride, columns;

  // Quantizes values of a row, rounded to `rounded` first. `factor` is *scale.
  template <int N>
  __device__ void write(int64_t row, int64_t column, DType rounded, float factor,
                        float (&values)[N]) const {
    round_to(rounded, values);
    uint8_t* to = data + row * row_stride + column;
    dtype == DType::e4m3 ? encode<e4m3>(values, factor, to) : encode<e5m2>(values, factor, to);
  }

  // Columns past the classes become 0.
  __device__ void pad(int64_t row, int64_t classes) const {
    for (int64_t column = classes + threadIdx.x; column < columns; column += blockDim.x)
      data[row * row_stride + column] = 0;
  }

 private:
  template <class Q, int N>
  static __device__ void encode(const float (&values)[N], float factor, uint8_t* to) {
    if (reinterpret_cast<uintptr_t>(to) % 4 == 0 || N == 1)
      return store_encoded<Q>(values, factor, to);
#pragma unroll
    for (int i = 0; i < N; ++i) store_encoded<Q>({values[i]}, factor, to + i);
  }
};

template <class C, int N>
__global__ void __launch_bounds__(max_threads)
    cross_entropy_to_gradient_kernel(const __grid_constant__ CrossEntropy<C> a,
                                     const __grid_constant__ GradientOutput quantized) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  __shared__ C scratch[warp_size];
  const int64_t row = blockIdx.x, base = row * a.row_stride, label = a.targets[row];
  const char* from = address_of(a.logits, base);
  const RowSpan<N> span(from, N == 8 ? 2 : 4, a.classes);
  // The copy has the alignment of the row.
  const Operand held(dynamic + reinterpret_cast<uintptr_t>(from) % line, a.logits.dtype);
  RowSums<C> sums{};
  C loss = 0;
  if (label != a.ignore_index) {
    // Read before the barriers of the sums below: later a thread may have overwritten it.
    const C label_logit = a.label_logit(row, label);
    hold_row<C>(span, a.logits, base, held);
    sums = sum_row(span, held, 0, a.smoothing > 0, scratch);
    loss = a.loss(sums, label_logit);
  }
  if (threadIdx.x == 0) store_one(a.losses, row, loss);
  const RowGradient<C, N> gradient(a, label, C{1}, sums.normalizer());
  if constexpr (std::is_same_v<C, float>) {
    if (quantized.data != nullptr) {
      const float factor = *quantized.scale;
      gradient.each(span, held, 0, [&](int64_t column, auto& values) {
        quantized.write(row, column, a.logits.dtype, factor, values);
      });
      return quantized.pad(row, a.classes);
    }
  }
  gradient.write(span, held, 0, a.logits, base);
}

template <class C, int N>
void launch_to_gradient(const CrossEntropy<C>& a, int64_t rows, size_t shared,
                        const QuantizedOutput& quantized) {
  const auto kernel = cross_entropy_to_gradient_kernel<C, N>;
  // As many blocks as fit: some load their rows while others compute.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "cudaFuncSetAttribute");
  GradientOutput out{};
  if (quantized.data.present) {
    out = {.scale = quantized.scale.as<const float>(),
           .data = quantized.data.as<uint8_t>(),
           .dtype = quantized.data.dtype,
           .row_stride = quantized.data.strides[0],
           .columns = quantized.data.shape[1]};
  }
  launch(kernel, static_cast<unsigned>(rows), threads_for(a.classes / N), shared, a, out);
}

// Quantizes dlogits, which may lie in the same memory, by way of a copy.
void quantize_gradient(const TensorView& dlogits, const QuantizedOutput& out) {
  const int64_t rows = dlogits.shape[0], classes = dlogits.shape[1];
  const Tensor copy = workspace(dlogits.shape, out.data.dtype);
  quantize_kernels.quantize(dlogits, {.scale = out.scale, .data = copy});
  auto* data = out.data.as<uint8_t>();
  const auto pitch = static_cast<size_t>(out.data.strides[0]);
  check(cudaMemcpy2DAsync(data, pitch, copy.raw_data(), static_cast<size_t>(classes),
                          static_cast<size_t>(classes), static_cast<size_t>(rows),
                          cudaMemcpyDeviceToDevice, stream()),
        "cudaMemcpy2DAsync");
  if (out.data.shape[1] == classes) return;
  check(
      cudaMemset2DAsync(data + classes, pitch, 0, static_cast<size_t>(out.data.shape[1] - classes),
                        static_cast<size_t>(rows), stream()),
      "cudaMemset2DAsync");
}

void to_gradient(const CrossEntropyForward& args) {
  const TensorView& logits = args.logits;
  const Targets targets = targets_of("cross_entropy_to_gradient", args.target);
  require_compute("cross_entropy_to_gradient", {&logits, &args.losses});
  const int pack = row_pack({&logits});
  const int64_t shared = logits.shape.back() * static_cast<int64_t>(size_of(logits.dtype)) + line;
  const int64_t beside = warp_size * static_cast<int64_t>(sizeof(float));
  if (pack == 1 || shared + beside > properties().shared_per_block) {
    const Tensor lse = workspace(args.target.shape, args.losses.dtype);
    CrossEntropyForward forward = args;
    forward.lse = lse;
    cross_entropy(forward);
    cross_entropy_backward({.dlosses = {},
                            .logits = logits,
                            .target = args.target,
                            .lse = lse,
                            .smoothing = args.smoothing,
                            .ignore_index = args.ignore_index,
                            .dlogits = logits});
    if (args.quantized.data.present) quantize_gradient(logits, args.quantized);
    return;
  }
  with_packing(logits.dtype, pack, [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    if constexpr (P::size > 1) {
      CrossEntropy<C> a = describe<C>(targets, args);
      a.losses = args.losses;
      launch_to_gradient<C, P::size>(a, args.target.numel(), static_cast<size_t>(shared),
                                     args.quantized);
    }
  });
}

void cross_entropy_to_gradient(const CrossEntropyForward& args) {
  if (args.target.numel() == 0) return;
  to_gradient(args);
  if (!args.quantized.transposed.present) return;
  transpose_bytes(batch_of_one(args.quantized.data), batch_of_one(args.quantized.transposed));
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
                               .cross_entropy_to_gradient = cross_entropy_to_gradient,
                               .count_targets = count_targets};

}  // namespace binade::backend::cuda
