#include "binade/backend/quantize.h"

#include <algorithm>

#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/matmul/epilogue.h"
#include "binade/backend/cuda/quantize/fused.h"
#include "binade/backend/cuda/quantize/groups.h"
#include "binade/backend/cuda/quantize/tile.cuh"
#include "binade/backend/quantize_scale.h"

namespace binade::backend::cuda {
namespace {

constexpr int amax_threads = 256;

// A strided matrix.
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

// A matrix in memory as the source of quantize_kernel.
template <class T, bool vectorized_rows>
struct Stored : Matrix<T> {
  static constexpr bool vectorized = vectorized_rows;
  static constexpr int parts = 1, others = 0;
  static constexpr int in_flight = vectorized ? 2 : 1, blocks = vectorized ? 3 : 1;
  // For any strides, sizes and dtype.
  struct Elements {
    float values[chunk_bytes];
    __device__ float operator[](int i) const { return values[i]; }
  };
  using Chunk = std::conditional_t<vectorized, Words<T>, Elements>;

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    const bool inside = row < this->rows && column < this->columns;
    if constexpr (vectorized) {
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
  static __device__ NoColumns columns_at(int64_t) { return {}; }
  static __device__ int64_t place(int, int64_t column) { return column; }
  __device__ void values(NoColumns, const Chunk& chunk, float (&out)[parts][chunk_bytes]) const {
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
  raise_amax(largest, amax);
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
  raise_amax(largest, amax);
}

__global__ void scale_kernel(const float* amax, float max_value, ScaleRule rule, float* scale,
                             float* scale_inv) {
  *scale = scale_for(*amax, max_value, rule);
  *scale_inv = 1 / *scale;
}

__global__ void record_kernel(const float* amax, float* pending, int32_t* dropped) {
  settle_amax(*pending, *dropped);
  if (amax == nullptr) return;
  float value = *amax;
  settle_amax(value, *dropped);
  if (*pending < value) *pending = value;
}

// DelayedScale as the kernel takes it.
struct RollArgs {
  float* history;
  int64_t length;  // of the history
  float* pending;
  int32_t* dropped;
  float *scale, *scale_inv;
  float* prepared;  // or null
  float max_value;
  DelayedRule rule;
};
constexpr size_t max_rolled = 8;  // streams per launch; a linear layer has three
struct RollList {
  RollArgs streams[max_rolled];
};

// A block shifts a history from its end, so that no element is overwritten before it is read.
__global__ void __launch_bounds__(1024) roll_kernel(const __grid_constant__ RollList list) {
  const RollArgs& a = list.streams[blockIdx.x];
  __shared__ float scratch[warp_size];
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  int32_t dropped = 0;
  float newest = *a.pending;
  settle_amax(newest, dropped);
  float amax = newest;
  for (int64_t begin = (a.length - 1) / threads * threads; begin >= 0; begin -= threads) {
    const int64_t at = begin + thread;
    float value = 0;
    if (at < a.length) value = at == 0 ? newest : a.history[at - 1];
    if (!a.rule.most_recent) amax = Max{}(amax, value);
    __syncthreads();
    if (at < a.length) a.history[at] = value;
    __syncthreads();
  }
  amax = reduce_block(amax, Max{}, 0.0f, scratch);
  if (thread != 0) return;
  *a.pending = 0;
  if (dropped > 0) *a.dropped += dropped;
  if (amax != 0) {
    *a.scale = delayed_scale(amax, a.max_value, a.rule);
    *a.scale_inv = 1 / *a.scale;
  }
  if (a.prepared != nullptr) *a.prepared = *a.scale_inv;
}

// Whether x and both results come in aligned chunks of 16.
template <class T>
bool is_vectorized(const TensorView& x, const TileOutput& out) {
  constexpr int64_t per_access = 16 / sizeof(T);
  return x.strides[1] == 1 && x.strides[0] % per_access == 0 &&
         packs_fit<uint8_t, chunk_bytes>(x.data) && out.is_vectorized(x.shape[0], x.shape[1]);
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

void quantize(TensorView x, const QuantizedOutput& out) {
  if (x.numel() == 0) return;
  TileOutput tiles(out);
  if (x.strides[1] != 1 && x.strides[0] == 1) {  // quantize the transpose, whose rows are dense
    std::swap(x.shape[0], x.shape[1]);
    std::swap(x.strides[0], x.strides[1]);
    std::swap(tiles.data, tiles.transposed);
  }
  dispatch_floating("quantize", x.dtype, [&](auto from) {
    using T = typename decltype(from)::type;
    const auto start = [&](const auto& source) { quantize_tiles(source, out.dtype(), tiles); };
    if constexpr (!std::is_same_v<T, double>) {
      if (is_vectorized<T>(x, tiles)) return start(Stored<T, true>{Matrix<T>(x)});
    }
    start(Stored<T, false>{Matrix<T>(x)});
  });
}

TensorView as_batch(TensorView x) {
  x.shape.insert(0, 1);
  x.strides.insert(0, 0);
  return x;
}

void quantize_groups(TensorView x, const GroupQuantizedOutput& out) {
  if (x.numel() == 0) return;
  if (scale_shape(x.shape, out.group).numel() != 1) {
    quantize_fine_groups(x, out);
    if (out.transposed.present) transpose_bytes(as_batch(out.data), as_batch(out.transposed));
    return;
  }
  const memory::CategoryGuard category(memory::Category::workspace);
  const Tensor largest = Tensor::empty({1}, DType::f32, device());
  const Tensor scale = Tensor::empty({1}, DType::f32, device());
  amax(x, largest);
  launch(scale_kernel, dim3(1), dim3(1), 0, TensorView(largest).as<const float>(),
         max_of(out.data.dtype), out.rule, TensorView(scale).as<float>(),
         out.scale_inv.as<float>());
  quantize(x, {.scale = scale, .data = out.data, .transposed = out.transposed});
}

void record_amax(TensorView amax, TensorView pending, TensorView dropped) {
  launch(record_kernel, dim3(1), dim3(1), 0, amax.present ? amax.as<const float>() : nullptr,
         pending.as<float>(), dropped.as<int32_t>());
}

void roll(std::span<const DelayedScale> streams) {
  for (size_t begin = 0; begin < streams.size(); begin += max_rolled) {
    const auto some = streams.subspan(begin, std::min(max_rolled, streams.size() - begin));
    RollList list{};
    int64_t longest = 0;
    for (size_t i = 0; i < some.size(); ++i) {
      const DelayedScale& stream = some[i];
      list.streams[i] = {
          .history = stream.history.as<float>(),
          .length = stream.history.numel(),
          .pending = stream.pending.as<float>(),
          .dropped = stream.dropped.as<int32_t>(),
          .scale = stream.scale.as<float>(),
          .scale_inv = stream.scale_inv.as<float>(),
          .prepared = stream.prepared.present ? stream.prepared.as<float>() : nullptr,
          .max_value = static_cast<float>(stream.max_value),
          .rule = stream.rule};
      longest = std::max(longest, stream.history.numel());
    }
    const int64_t threads = std::min<int64_t>(1024, round_up(longest, int64_t{warp_size}));
    launch(roll_kernel, static_cast<unsigned>(some.size()), static_cast<unsigned>(threads), 0,
           list);
  }
}

}  // namespace

const QuantizeKernels quantize_kernels{.amax = amax,
                                       .quantize = quantize,
                                       .quantize_swiglu = quantize_swiglu,
                                       .quantize_swiglu_backward = quantize_swiglu_backward,
                                       .quantize_activation_backward = quantize_activation_backward,
                                       .quantize_norm = quantize_norm,
                                       .quantize_rope = quantize_rope,
                                       .quantize_groups = quantize_groups,
                                       .quantize_mx = quantize_mx,
                                       .quantize_coded = nullptr,
                                       .dequantize = dequantize,
                                       .record_amax = record_amax,
                                       .roll = roll};

}  // namespace binade::backend::cuda
