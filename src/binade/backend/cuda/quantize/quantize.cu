#include "binade/backend/quantize.h"

#include <algorithm>

#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/matmul/epilogue.h"
#include "binade/backend/cuda/quantize/fused.h"
#include "binade/backend/cuda/quantize/groups.h"
#include "binade/backend/cuda/quantize/tile.cuh"
#include "binade/backend/fp8_scale.h"

namespace binade::backend::cuda {
namespace {

constexpr int amax_threads = 256;

// Where a matrix lies.
template <class T>
struct Matrix {
  const T* data;
  int64_t row_stride, column_stride, rows, columns;

  explicit Matrix(const TensorView& x)
      : data(x.as<const T>()),
        row_stride(x.strides[0]),
        column_stride(x.strides[1]),
        rows(x.shape[0]),
        columns(x.shape[1]) {}
};

// A matrix in memory as what is quantized. `whole`: in whole accesses along its rows.
template <class T, bool whole_chunks>
struct Stored : Matrix<T> {
  static constexpr bool whole = whole_chunks;
  static constexpr int parts = 1, in_flight = whole ? 2 : 1;
  // Of any strides, sizes and type.
  struct Elements {
    float values[chunk_bytes];
    __device__ float operator[](int i) const { return values[i]; }
  };
  using Chunk = std::conditional_t<whole, Words<T>, Elements>;

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    const bool inside = row < this->rows && column < this->columns;
    if constexpr (whole) {
      chunk.load(this->data + row * this->row_stride + column, inside);
    } else {
#pragma unroll
      for (int i = 0; i < chunk_bytes; ++i) {
        chunk.values[i] =
            inside && column + i < this->columns
                ? static_cast<float>(
                      this->data[row * this->row_stride + (column + i) * this->column_stride])
                : 0;
      }
    }
  }
  __device__ void values(int64_t, int64_t, const Chunk& chunk,
                         float (&out)[parts][chunk_bytes]) const {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) out[0][i] = chunk[i];
  }
};

template <class T>
__global__ void __launch_bounds__(amax_threads) amax_kernel(Matrix<T> x, float* amax) {
  uint32_t largest = 0;
  for (int64_t i = first_item(); i < x.rows * x.columns; i += item_step()) {
    const int64_t row = i / x.columns;
    const T value = x.data[row * x.row_stride + (i - row * x.columns) * x.column_stride];
    largest = max(largest, magnitude_bits(static_cast<float>(value)));
  }
  join_amax(largest, amax);
}

template <class T, int N>
__global__ void __launch_bounds__(amax_threads)
    dense_amax_kernel(const T* x, int64_t packs, float* amax) {
  constexpr int unroll = 4;
  uint32_t largest = 0;
  for (int64_t i = first_item(); i < packs; i += unroll * item_step()) {
    Pack<T, N> loaded[unroll] = {};
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const int64_t at = i + u * item_step();
      if (at < packs) loaded[u] = load_pack<T, N>(x + at * N);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
#pragma unroll
      for (int j = 0; j < N; ++j)
        largest = max(largest, magnitude_bits(static_cast<float>(loaded[u][j])));
    }
  }
  join_amax(largest, amax);
}

__global__ void scale_kernel(const float* amax, float max_value, ScaleRule rule, float* scale,
                             float* inverse) {
  *scale = scale_for(*amax, max_value, rule);
  *inverse = 1 / *scale;
}

__global__ void record_kernel(const float* amax, float* pending, int32_t* dropped) {
  if (finite(*amax)) {
    if (*pending < *amax) *pending = *amax;
  } else {
    ++*dropped;
  }
}

// One block: moves the history from its end down, so that what is read has not been overwritten.
__global__ void __launch_bounds__(1024)
    roll_kernel(float* history, int64_t length, float* pending, float max_value, DelayedRule rule,
                float* scale, float* inverse) {
  __shared__ float scratch[warp_size];
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const float newest = *pending;
  float amax = newest;
  for (int64_t begin = (length - 1) / threads * threads; begin >= 0; begin -= threads) {
    const int64_t at = begin + thread;
    float value = 0;
    if (at < length) value = at == 0 ? newest : history[at - 1];
    if (!rule.most_recent) amax = Max{}(amax, value);
    __syncthreads();
    if (at < length) history[at] = value;
    __syncthreads();
  }
  amax = reduce_block(amax, Max{}, 0.0f, scratch);
  if (thread != 0) return;
  *pending = 0;
  if (amax == 0) return;
  *scale = delayed_scale(amax, max_value, rule.margin);
  *inverse = 1 / *scale;
}

// Whether all chunks of 16 exist as a whole and are aligned, of x and of both results.
template <class T>
bool in_whole_chunks(const TensorView& x, const uint8_t* q, const uint8_t* transposed) {
  constexpr int64_t per_access = 16 / sizeof(T);
  return x.strides[1] == 1 && x.strides[0] % per_access == 0 &&
         packs_fit<uint8_t, chunk_bytes>(x.data) &&
         written_whole(x.shape[0], x.shape[1], q, transposed);
}

void amax(TensorView x, TensorView result) {
  check(cudaMemsetAsync(result.data, 0, sizeof(float), stream()), "cudaMemsetAsync");
  if (x.numel() == 0) return;
  dispatch_floating("amax", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int N = 16 / sizeof(T);
    if (x.is_dense() && x.numel() % N == 0 && packs_fit<T, N>(x.data)) {
      const int64_t packs = x.numel() / N;
      launch(dense_amax_kernel<T, N>, dim3(grid_for(packs, amax_threads)), dim3(amax_threads), 0,
             x.as<const T>(), packs, result.as<float>());
    } else {
      launch(amax_kernel<T>, dim3(grid_for(x.numel(), amax_threads)), dim3(amax_threads), 0,
             Matrix<T>(x), result.as<float>());
    }
  });
}

void quantize(TensorView x, const Codes& codes) {
  if (x.numel() == 0) return;
  auto* q = codes.q.as<uint8_t>();
  auto* transposed = codes.transposed.present ? codes.transposed.as<uint8_t>() : nullptr;
  if (x.strides[1] != 1 && x.strides[0] == 1) {  // the transpose is the one that lies along rows
    std::swap(x.shape[0], x.shape[1]);
    std::swap(x.strides[0], x.strides[1]);
    std::swap(q, transposed);
  }
  dispatch_floating("quantize", x.dtype, [&](auto from) {
    using T = typename decltype(from)::type;
    const auto start = [&](const auto& source) {
      quantize_tiles(source, codes.q.dtype, codes.scale, q, transposed, codes.amax);
    };
    if constexpr (!std::is_same_v<T, double>) {
      if (in_whole_chunks<T>(x, q, transposed)) return start(Stored<T, true>{Matrix<T>(x)});
    }
    start(Stored<T, false>{Matrix<T>(x)});
  });
}

TensorView as_batch(TensorView x) {
  x.shape.insert(0, 1);
  x.strides.insert(0, 0);
  return x;
}

void quantize_groups(TensorView x, ScaleGroup group, ScaleRule rule, TensorView q,
                     TensorView transposed, TensorView inverse) {
  if (x.numel() == 0) return;
  const bool whole = (group.rows == 0 || group.rows >= x.shape[0]) &&
                     (group.columns == 0 || group.columns >= x.shape[1]);
  if (!whole) {
    quantize_finely(x, group, rule, q, inverse);
    if (transposed.present) transpose_bytes(as_batch(q), as_batch(transposed));
    return;
  }
  const memory::CategoryGuard category(memory::Category::workspace);
  const Tensor largest = Tensor::empty({1}, DType::f32, device());
  const Tensor scale = Tensor::empty({1}, DType::f32, device());
  amax(x, largest);
  launch(scale_kernel, dim3(1), dim3(1), 0, TensorView(largest).as<const float>(), fp8_max(q.dtype),
         rule, TensorView(scale).as<float>(), inverse.as<float>());
  quantize(x, {scale, q, transposed});
}

void record_amax(TensorView amax, TensorView pending, TensorView dropped) {
  launch(record_kernel, dim3(1), dim3(1), 0, amax.as<const float>(), pending.as<float>(),
         dropped.as<int32_t>());
}

void roll(TensorView history, TensorView pending, double max_value, DelayedRule rule,
          TensorView scale, TensorView inverse) {
  launch(roll_kernel, dim3(1), dim3(1024), 0, history.as<float>(), history.numel(),
         pending.as<float>(), static_cast<float>(max_value), rule, scale.as<float>(),
         inverse.as<float>());
}

}  // namespace

const QuantizeKernels quantize_kernels{.amax = amax,
                                       .quantize = quantize,
                                       .quantize_swiglu = quantize_swiglu,
                                       .quantize_swiglu_backward = quantize_swiglu_backward,
                                       .quantize_activation_backward = quantize_activation_backward,
                                       .quantize_norm = quantize_norm,
                                       .quantize_groups = quantize_groups,
                                       .quantize_mx = quantize_mx,
                                       .dequantize = dequantize,
                                       .record_amax = record_amax,
                                       .roll = roll};

}  // namespace binade::backend::cuda
