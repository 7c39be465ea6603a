#include "binade/backend/cuda/matmul/epilogue.h"

#include "binade/backend/cuda/common/byte_transpose.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/elementwise/math.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int finish_threads = 256;

// A matrix, or a batch of them, with dense rows.
template <class T>
struct Rows {
  T* data;
  int64_t batch_stride, row_stride;

  explicit Rows(const TensorView& view)
      : data(view.present ? view.as<T>() : nullptr),
        batch_stride(view.present ? view.strides[0] : 0),
        row_stride(view.present ? view.strides[1] : 0) {}

  __device__ T* at(int64_t batch, int64_t row, int64_t column) const {
    return data + batch * batch_stride + row * row_stride + column;
  }
};

template <class C>
__device__ C activate(Activation activation, C x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return unary_value<C>(Unary::relu, x, 0, 0);
    case Activation::gelu:
      return unary_value<C>(Unary::gelu, x, 0, 0);
    case Activation::gelu_tanh:
      return unary_value<C>(Unary::gelu_tanh, x, 0, 0);
    case Activation::silu:
      return unary_value<C>(Unary::silu, x, 0, 0);
  }
  return x;
}

template <class T>
struct FinishArguments {
  Rows<const T> in;
  const Compute<T>* bias;  // or null
  Rows<T> pre, y;          // pre.data may be null
  int64_t rows, rows_per_batch, columns;
  Activation activation;
};

// Threads along x of a block walk a row in packs of N, threads along y its rows.
template <class T, int N>
__global__ void __launch_bounds__(finish_threads) finish_kernel(FinishArguments<T> arguments) {
  using C = Compute<T>;
  const auto& [in, bias, pre, y, rows, rows_per_batch, columns, activation] = arguments;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (column >= columns) return;
  Pack<C, N> added{};
  if (bias != nullptr) added = load_pack<C, N>(bias + column);
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.y;
  for (int64_t at = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; at < rows;
       at += step) {
    const int64_t batch = rows_per_batch == rows ? 0 : at / rows_per_batch;
    const int64_t row = at - batch * rows_per_batch;
    const Pack<T, N> values = load_pack<T, N>(in.at(batch, row, column));
    Pack<T, N> before, after;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C value = cast<C>(values[i]) + added[i];
      before[i] = cast<T>(value);
      after[i] = cast<T>(activate(activation, value));
    }
    if (pre.data != nullptr) store_pack<T, N>(pre.at(batch, row, column), before);
    store_pack<T, N>(y.at(batch, row, column), after);
  }
}

template <class T, int N>
bool rows_in_packs(const TensorView& view) {
  return !view.present ||
         (packs_fit<T, N>(view.data) && view.strides[0] % N == 0 && view.strides[1] % N == 0);
}

template <class T, int N>
void launch_finish(const TensorView& in, const TensorView& bias, const TensorView& pre,
                   const TensorView& y, Activation activation) {
  const int64_t rows = y.shape[0] * y.shape[1], columns = y.shape[2], packs = columns / N;
  int width = warp_size;
  while (width < packs && width < finish_threads / 2) width *= 2;
  const int height = finish_threads / width;
  const int64_t down = ceil_div<int64_t>(rows, height);
  const dim3 grid(static_cast<unsigned>(ceil_div<int64_t>(packs, width)),
                  static_cast<unsigned>(down < 65535 ? down : 65535));
  launch(finish_kernel<T, N>, grid, dim3(width, height), 0,
         FinishArguments<T>{.in = Rows<const T>(in),
                            .bias = bias.present ? bias.as<const Compute<T>>() : nullptr,
                            .pre = Rows<T>(pre),
                            .y = Rows<T>(y),
                            .rows = rows,
                            .rows_per_batch = y.shape[1],
                            .columns = columns,
                            .activation = activation});
}

// Unlike the transpose of elementwise copies, reads and writes 16 elements of one byte per access.
template <bool vectorized>
__global__ void __launch_bounds__(tile_threads)
    transpose_kernel(const uint8_t* from, int64_t batch_stride, int64_t row_stride, int64_t rows,
                     int64_t columns, uint8_t* to) {
  __shared__ ByteTile tile;
  from += blockIdx.z * batch_stride;
  to += blockIdx.z * rows * columns;
  const int64_t left = static_cast<int64_t>(blockIdx.x) * tile_side;
  const int64_t step = static_cast<int64_t>(gridDim.y) * tile_side;
  for (int64_t top = static_cast<int64_t>(blockIdx.y) * tile_side; top < rows; top += step) {
    uint4 bytes[chunks_per_thread];
#pragma unroll
    for (int i = 0; i < chunks_per_thread; ++i) {
      const int at = i * tile_threads + static_cast<int>(threadIdx.x);
      const int64_t row = top + at / tile_chunks;
      const int64_t column = left + at % tile_chunks * chunk_bytes;
      bytes[i] = {};
      if (row >= rows) continue;
      const uint8_t* source = from + row * row_stride + column;
      if constexpr (vectorized) {
        if (column < columns) bytes[i] = *reinterpret_cast<const uint4*>(source);
      } else {
        uint32_t words[4] = {};
#pragma unroll
        for (int b = 0; b < chunk_bytes; ++b) {
          if (column + b < columns) words[b / 4] |= uint32_t{source[b]} << (b % 4 * 8);
        }
        bytes[i] = {words[0], words[1], words[2], words[3]};
      }
    }
    __syncthreads();  // the previous tile has been read
#pragma unroll
    for (int i = 0; i < chunks_per_thread; ++i) {
      const int at = i * tile_threads + static_cast<int>(threadIdx.x);
      tile.put(at / tile_chunks, at % tile_chunks, bytes[i]);
    }
    __syncthreads();
    store_transposed<vectorized>(tile, to + left * rows + top, rows, rows - top, columns - left);
  }
}

template <class T>
__global__ void combine_kernel(float alpha, const float* scale_a, const float* scale_b, float beta,
                               T* scalars) {
  scalars[0] = alpha * (scale_a == nullptr ? 1 : *scale_a) * (scale_b == nullptr ? 1 : *scale_b);
  scalars[1] = beta;
}

bool is_multiple_of_chunk(int64_t value) { return value % chunk_bytes == 0; }

}  // namespace

void finish(const TensorView& in, const TensorView& bias, const TensorView& pre,
            const TensorView& y, Activation activation) {
  dispatch_floating("matmul", y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int N = 16 / sizeof(T);
    const bool packs = y.shape[2] % N == 0 && rows_in_packs<T, N>(in) && rows_in_packs<T, N>(pre) &&
                       rows_in_packs<T, N>(y) &&
                       (!bias.present || packs_fit<Compute<T>, N>(bias.data));
    if (packs) {
      launch_finish<T, N>(in, bias, pre, y, activation);
    } else {
      launch_finish<T, 1>(in, bias, pre, y, activation);
    }
  });
}

void transpose_bytes(const TensorView& from, const TensorView& to) {
  const int64_t batch = from.shape[0], rows = from.shape[1], columns = from.shape[2];
  const bool vectorized =
      is_multiple_of_chunk(rows) && is_multiple_of_chunk(columns) &&
      is_multiple_of_chunk(from.strides[0]) && is_multiple_of_chunk(from.strides[1]) &&
      packs_fit<uint8_t, chunk_bytes>(from.data) && packs_fit<uint8_t, chunk_bytes>(to.data);
  launch(vectorized ? transpose_kernel<true> : transpose_kernel<false>,
         tile_grid(rows, columns, batch), dim3(tile_threads), 0, from.as<const uint8_t>(),
         from.strides[0], from.strides[1], rows, columns, to.as<uint8_t>());
}

void combine_scales(float alpha, const TensorView& scale_a, const TensorView& scale_b, float beta,
                    const TensorView& scalars) {
  const auto address = [](const TensorView& scale) {
    return scale.present ? scale.as<const float>() : nullptr;
  };
  if (scalars.dtype == DType::f64) {
    launch(combine_kernel<double>, dim3(1), dim3(1), 0, alpha, address(scale_a), address(scale_b),
           beta, scalars.as<double>());
  } else {
    launch(combine_kernel<float>, dim3(1), dim3(1), 0, alpha, address(scale_a), address(scale_b),
           beta, scalars.as<float>());
  }
}

}  // namespace binade::backend::cuda
