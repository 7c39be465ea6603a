#include "binade/backend/cuda/attention/decode.h"

#include <limits>

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/cuda/common/pack.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int decode_threads = 512;
// Keys whose scores are in shared memory at a time: four per thread keep enough loads in flight.
constexpr int decode_keys = 4 * decode_threads;

template <class T, class C = Compute<T>>
struct DecodeArguments {
  const T* qkv;
  const float *cosine, *sine;  // null: nothing is rotated
  const int64_t* position;
  T *keys, *values, *out;
  int heads, kv_heads, dim;
  int64_t capacity;
  C scale;
};

__device__ inline float decode_exp(float x) { return __expf(x); }
__device__ inline double decode_exp(double x) { return exp(x); }

// Element i of a head, rotated by `position` and rounded to T.
template <class T, class C = Compute<T>>
__device__ inline T rotated(const DecodeArguments<T>& arguments, const T* head, int64_t position,
                            int i) {
  if (arguments.cosine == nullptr) return head[i];
  const int half = arguments.dim / 2, pair = i % half;
  const C c = arguments.cosine[position * half + pair], s = arguments.sine[position * half + pair];
  const C a = static_cast<C>(head[pair]), b = static_cast<C>(head[pair + half]);
  return cast<T>(i < half ? a * c - b * s : b * c + a * s);
}

// One block per query head and sequence. Blocks whose heads share a key head all write the same new
// key and value, so that each may read its own.
template <class T, int N, class C = Compute<T>>
__global__ void __launch_bounds__(decode_threads, 1) decode_kernel(DecodeArguments<T> arguments) {
  extern __shared__ __align__(16) unsigned char decode_memory[];
  __shared__ C scratch[warp_size];
  C* const scores = reinterpret_cast<C*>(decode_memory);  // decode_keys
  C* const sums = scores + decode_keys;                   // decode_threads packs
  C* const q = sums + decode_threads * N;                 // dim
  const int dim = arguments.dim, heads = arguments.heads, kv_heads = arguments.kv_heads;
  const int head = blockIdx.x, kv = head / (heads / kv_heads);
  const int64_t position = *arguments.position;
  if (position < 0 || position >= arguments.capacity) return;
  const int64_t cache = (int64_t{blockIdx.y} * kv_heads + kv) * arguments.capacity * dim;
  T *const keys = arguments.keys + cache, *const values = arguments.values + cache;
  const T* const token = arguments.qkv + int64_t{blockIdx.y} * (heads + 2 * kv_heads) * dim;
  for (int i = threadIdx.x; i < dim; i += decode_threads) {
    q[i] = static_cast<C>(rotated(arguments, token + head * dim, position, i)) * arguments.scale;
    keys[position * dim + i] = rotated(arguments, token + (heads + kv) * dim, position, i);
    values[position * dim + i] = token[(heads + kv_heads + kv) * dim + i];
  }
  __syncthreads();

  // This thread's part of the output: a pack of columns, summed over every `groups`-th key.
  const int columns = dim / N, groups = decode_threads / columns;
  const int column = threadIdx.x % columns * N, group = threadIdx.x / columns;
  C sum[N] = {};
  C highest = -std::numeric_limits<C>::infinity(), total = 0;
  for (int64_t first = 0; first <= position; first += decode_keys) {
    const int count = static_cast<int>(min(int64_t{decode_keys}, position + 1 - first));
    C chunk_highest = highest;
    for (int key = threadIdx.x; key < count; key += decode_threads) {
      const T* const row = keys + (first + key) * dim;
      C score = 0;
#pragma unroll 8
      for (int i = 0; i < dim; i += N) {
        const auto pack = load_pack<T, N>(row + i);
#pragma unroll
        for (int n = 0; n < N; ++n) score += q[i + n] * static_cast<C>(pack[n]);
      }
      scores[key] = score;
      chunk_highest = Max()(chunk_highest, score);
    }
    chunk_highest = reduce_block(chunk_highest, Max(), highest, scratch);
    const C rescale = decode_exp(highest - chunk_highest);
    highest = chunk_highest;
    C chunk_total = 0;
    for (int key = threadIdx.x; key < count; key += decode_threads) {
      scores[key] = decode_exp(scores[key] - highest);
      chunk_total += scores[key];
    }
    total = total * rescale + reduce_block(chunk_total, Sum(), C(0), scratch);
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] *= rescale;
    if (group < groups) {
#pragma unroll 8
      for (int key = group; key < count; key += groups) {
        const auto pack = load_pack<T, N>(values + (first + key) * dim + column);
#pragma unroll
        for (int n = 0; n < N; ++n) sum[n] += scores[key] * static_cast<C>(pack[n]);
      }
    }
    __syncthreads();  // before the next chunk's scores
  }

  if (group < groups) {
#pragma unroll
    for (int n = 0; n < N; ++n) sums[group * dim + column + n] = sum[n];
  }
  __syncthreads();
  T* const out = arguments.out + (int64_t{blockIdx.y} * heads + head) * dim;
  for (int i = threadIdx.x; i < dim; i += decode_threads) {
    C value = 0;
    for (int g = 0; g < groups; ++g) value += sums[g * dim + i];
    out[i] = cast<T>(value / total);
  }
}

}  // namespace

void decode(const AttentionDecode& call) {
  const TensorView& keys = call.keys;
  if (call.out.numel() == 0) return;
  dispatch_floating("attention", call.qkv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const int64_t dim = keys.shape[3];
    const DecodeArguments<T> arguments{
        .qkv = call.qkv.as<T>(),
        .cosine = call.cosine.present ? call.cosine.as<float>() : nullptr,
        .sine = call.cosine.present ? call.sine.as<float>() : nullptr,
        .position = call.position.as<int64_t>(),
        .keys = keys.as<T>(),
        .values = call.values.as<T>(),
        .out = call.out.as<T>(),
        .heads = static_cast<int>(call.out.shape[2] / dim),
        .kv_heads = static_cast<int>(keys.shape[1]),
        .dim = static_cast<int>(dim),
        .capacity = keys.shape[2],
        .scale = static_cast<C>(call.scale)};
    const auto run = [&](auto width) {
      constexpr int N = decltype(width)::value;
      if (dim > decode_threads * N) {
        fail("attention", {.argument = "dim",
                           .expected = "at most " + std::to_string(decode_threads * N),
                           .found = std::to_string(dim)});
      }
      const size_t elements = decode_keys + decode_threads * N + static_cast<size_t>(dim);
      launch(decode_kernel<T, N>,
             dim3(static_cast<unsigned>(arguments.heads), static_cast<unsigned>(keys.shape[0])),
             decode_threads, elements * sizeof(C), arguments);
    };
    constexpr int wide = 16 / sizeof(T);
    const bool packed =
        packs_fit<T, wide>(keys.data) && packs_fit<T, wide>(call.values.data) && dim % wide == 0;
    packed ? run(std::integral_constant<int, wide>{}) : run(std::integral_constant<int, 1>{});
  });
}

}  // namespace binade::backend::cuda
