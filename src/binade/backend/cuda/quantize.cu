#include "binade/backend/quantize.h"

#include <algorithm>

#include "binade/backend/cuda/byte_tile.cuh"
#include "binade/backend/cuda/encode.cuh"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/matmul_kernels.h"
#include "binade/backend/cuda/pack.cuh"
#include "binade/backend/cuda/quantize_groups.h"
#include "binade/backend/cuda/reduce.cuh"
#include "binade/backend/scale.h"

namespace binade::backend::cuda {
namespace {

constexpr int amax_threads = 256;

// Magnitudes compare as their bits do; NaN's are above all others.
__device__ uint32_t magnitude_bits(float x) { return formats::float_bits(x) & 0x7fffffffu; }

// Maxima join in any order with the same result, so this is deterministic. All threads of the block
// call it.
__device__ void join_amax(uint32_t bits, float* amax) {
  __shared__ uint32_t scratch[warp_size];
  bits = reduce_block(bits, Max{}, 0u, scratch);
  if (threadIdx.x == 0 && bits != 0) atomicMax(reinterpret_cast<unsigned*>(amax), bits);
}

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

// 16 neighbours in a row, kept as the words they are loaded as (single 16-bit elements would take a
// register each); 0 past the matrix's end.
template <class T>
struct Words {
  uint4 quads[sizeof(T)];

  __device__ void load(const Matrix<T>& x, int64_t row, int64_t column) {
#pragma unroll
    for (size_t i = 0; i < sizeof(T); ++i) quads[i] = {};
    if (row >= x.rows || column >= x.columns) return;
    const auto* from = reinterpret_cast<const uint4*>(x.data + row * x.row_stride + column);
#pragma unroll
    for (size_t i = 0; i < sizeof(T); ++i) quads[i] = from[i];
  }
  __device__ float operator[](int i) const {
    const int word = i * static_cast<int>(sizeof(T)) / 4;
    const uint4& quad = quads[word / 4];
    const uint32_t bits = word % 4 == 0   ? quad.x
                          : word % 4 == 1 ? quad.y
                          : word % 4 == 2 ? quad.z
                                          : quad.w;
    if constexpr (sizeof(T) == 4) {
      return formats::float_from_bits(bits);
    } else {
      return T::from_bits(static_cast<uint16_t>(i % 2 == 0 ? bits : bits >> 16));
    }
  }
};

// The same of any strides, sizes and type.
template <class T>
struct Elements {
  float values[chunk_bytes];

  __device__ void load(const Matrix<T>& x, int64_t row, int64_t column) {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) {
      values[i] =
          row < x.rows && column + i < x.columns
              ? static_cast<float>(x.data[row * x.row_stride + (column + i) * x.column_stride])
              : 0;
    }
  }
  __device__ float operator[](int i) const { return values[i]; }
};

// A block quantizes 128 x 128 elements at a time, written along the rows to q and, turned in shared
// memory, to `turned`; either may be null.
template <class T, class Q, bool whole>
__global__ void __launch_bounds__(tile_threads, whole ? 3 : 1)
    quantize_kernel(Matrix<T> x, const float* scale, uint8_t* q, uint8_t* turned, float* amax) {
  // Chunks loaded before the first is used, within what registers hold.
  constexpr int in_flight = whole ? 2 : 1;
  __shared__ ByteTile tile;
  const float factor = *scale;
  const int64_t left = static_cast<int64_t>(blockIdx.x) * tile_side;
  const int64_t step = static_cast<int64_t>(gridDim.y) * tile_side;
  uint32_t largest = 0;
  for (int64_t top = static_cast<int64_t>(blockIdx.y) * tile_side; top < x.rows; top += step) {
    if (turned != nullptr) __syncthreads();  // the tile before this one has been read
#pragma unroll 1
    for (int batch = 0; batch < chunks_per_thread; batch += in_flight) {
      std::conditional_t<whole, Words<T>, Elements<T>> loaded[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        const int at = (batch + i) * tile_threads + static_cast<int>(threadIdx.x);
        loaded[i].load(x, top + at / tile_chunks, left + at % tile_chunks * chunk_bytes);
      }
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        const int at = (batch + i) * tile_threads + static_cast<int>(threadIdx.x);
        const int64_t row = top + at / tile_chunks, column = left + at % tile_chunks * chunk_bytes;
        float values[chunk_bytes];
#pragma unroll
        for (int j = 0; j < chunk_bytes; ++j) {
          values[j] = loaded[i][j];
          largest = max(largest, magnitude_bits(values[j]));
        }
        const uint4 codes = encode_chunk<Q>(values, factor);
        if (turned != nullptr) tile.put(at / tile_chunks, at % tile_chunks, codes);
        if (q != nullptr && row < x.rows && column < x.columns)
          store_chunk<whole>(q + row * x.columns + column, codes, x.columns - column);
      }
    }
    if (turned == nullptr) continue;
    __syncthreads();
    store_turned<whole>(tile, turned + left * x.rows + top, x.rows, x.rows - top, x.columns - left);
  }
  if (amax != nullptr) join_amax(largest, amax);
}

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

// e4m3 or e5m2 as a tag.
template <class F>
void dispatch_fp8(DType dtype, F&& f) {
  if (dtype == DType::e4m3) return f(TypeTag<e4m3>{});
  if (dtype == DType::e5m2) return f(TypeTag<e5m2>{});
  fail("quantize",
       {.argument = "q", .expected = "e4m3 or e5m2", .found = std::string(name(dtype))});
}

// Whether all chunks of 16 exist as a whole and are aligned, of x and of both results.
template <class T>
bool in_whole_chunks(const TensorView& x, const uint8_t* q, const uint8_t* turned) {
  constexpr int64_t per_access = 16 / sizeof(T);
  const auto fits = [](const void* address) { return packs_fit<uint8_t, chunk_bytes>(address); };
  return x.strides[1] == 1 && x.strides[0] % per_access == 0 && x.shape[1] % chunk_bytes == 0 &&
         fits(x.data) && fits(q) && fits(turned) &&
         (turned == nullptr || x.shape[0] % chunk_bytes == 0);
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

void quantize(TensorView x, TensorView scale, TensorView q, TensorView transposed,
              TensorView amax) {
  if (x.numel() == 0) return;
  auto* codes = q.as<uint8_t>();
  auto* turned = transposed.present ? transposed.as<uint8_t>() : nullptr;
  if (x.strides[1] != 1 && x.strides[0] == 1) {  // the transpose is the one that lies along rows
    std::swap(x.shape[0], x.shape[1]);
    std::swap(x.strides[0], x.strides[1]);
    std::swap(codes, turned);
  }
  dispatch_floating("quantize", x.dtype, [&](auto from) {
    using T = typename decltype(from)::type;
    dispatch_fp8(q.dtype, [&](auto to) {
      using Q = typename decltype(to)::type;
      constexpr bool has_packs = !std::is_same_v<T, double>;
      const bool whole = has_packs && in_whole_chunks<T>(x, codes, turned);
      launch(whole ? quantize_kernel<T, Q, has_packs> : quantize_kernel<T, Q, false>,
             tile_grid(x.shape[0], x.shape[1]), dim3(tile_threads), 0, Matrix<T>(x),
             scale.as<const float>(), codes, turned, amax.present ? amax.as<float>() : nullptr);
    });
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
    if (transposed.present) turn_bytes(as_batch(q), as_batch(transposed));
    return;
  }
  const memory::CategoryGuard category(memory::Category::workspace);
  const Tensor largest = Tensor::empty({1}, DType::f32, device());
  const Tensor scale = Tensor::empty({1}, DType::f32, device());
  amax(x, largest);
  launch(scale_kernel, dim3(1), dim3(1), 0, TensorView(largest).as<const float>(), fp8_max(q.dtype),
         rule, TensorView(scale).as<float>(), inverse.as<float>());
  quantize(x, scale, q, transposed, {});
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
                                       .quantize_groups = quantize_groups,
                                       .quantize_mx = quantize_mx,
                                       .dequantize = dequantize,
                                       .record_amax = record_amax,
                                       .roll = roll};

}  // namespace binade::backend::cuda
