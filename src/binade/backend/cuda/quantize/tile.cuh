#pragma once

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/byte_transpose.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/quantize/fp8_encode.cuh"
#include "binade/backend/quantize.h"

// Quantizes a matrix by tiles, with its transpose and amax; the matrix may be computed on the fly.
namespace binade::backend::cuda {

// Raises *amax to the block's maximum. Deterministic, since maxima do not depend on the order. All
// threads of the block call it.
__device__ inline void raise_amax(uint32_t bits, float* amax) {
  __shared__ uint32_t scratch[warp_size];
  bits = reduce_block(bits, Max{}, 0u, scratch);
  if (threadIdx.x == 0 && bits != 0) atomicMax(reinterpret_cast<unsigned*>(amax), bits);
}

// 16 adjacent elements, kept as the words they are loaded as: separate 16-bit elements would take a
// register each.
template <class T>
struct Words {
  uint4 quads[sizeof(T)];

  // Loads all of them, or 0 if they do not `exist`.
  __device__ void load(const T* from, bool exist) {
#pragma unroll
    for (size_t i = 0; i < sizeof(T); ++i) quads[i] = {};
    if (!exist) return;
#pragma unroll
    for (size_t i = 0; i < sizeof(T); ++i) quads[i] = reinterpret_cast<const uint4*>(from)[i];
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

// QuantizedOutput as the kernel takes it. Any pointer but the scale may be null.
struct TileOutput {
  const float* scale;
  uint8_t *data, *transposed;
  float* amax;
  // Of a source's second matrix.
  const float* other_scale;
  uint8_t* other;  // transposed

  explicit TileOutput(const QuantizedOutput& out, const QuantizedOutput& second = {})
      : scale(out.scale.as<const float>()),
        data(out.data.present ? out.data.as<uint8_t>() : nullptr),
        transposed(out.transposed.present ? out.transposed.as<uint8_t>() : nullptr),
        amax(out.amax.present ? out.amax.as<float>() : nullptr),
        other_scale(second.scale.as<const float>()),
        other(second.transposed.present ? second.transposed.as<uint8_t>() : nullptr) {}

  // Whether a matrix [rows, columns], of which `part` columns belong together, can be written in
  // aligned chunks of 16.
  bool is_vectorized(int64_t rows, int64_t part) const {
    const auto fits = [](const void* address) { return packs_fit<uint8_t, chunk_bytes>(address); };
    return part % chunk_bytes == 0 && fits(data) && fits(transposed) && fits(other) &&
           ((transposed == nullptr && other == nullptr) || rows % chunk_bytes == 0);
  }
};

// Of a source that needs nothing per column.
struct NoColumns {};

// A block quantizes 128 x 128 elements at a time, and transposes them in shared memory. A Source is
// a matrix [rows, parts * columns]:
//   vectorized  whether its rows and columns come in chunks of 16 at aligned addresses
//   parts       matrices that are computed from the same operands
//   place       where a part's column is in the whole matrix; columns of a chunk stay adjacent
//   others      1 if it also computes a second matrix [rows, columns], which the kernel writes
//               transposed, as e4m3
//   in_flight   chunks loaded before the first is used, limited by registers
//   blocks      that a multiprocessor must be able to hold, which limits registers
//   columns_at  loads what 16 adjacent columns of all rows need
//   load        loads the operands of 16 adjacent elements of each part
//   values      computes those elements from both, 0 past the matrix's end
template <class Source, class Q>
__global__ void __launch_bounds__(tile_threads, Source::blocks)
    quantize_kernel(const __grid_constant__ Source source, const __grid_constant__ TileOutput out) {
  constexpr int parts = Source::parts, all = parts + Source::others;
  constexpr int in_flight = Source::in_flight;
  constexpr bool vectorized = Source::vectorized;
  static_assert(chunks_per_thread % in_flight == 0);
  extern __shared__ uint4 shared_tiles[];
  ByteTile* tiles = reinterpret_cast<ByteTile*>(shared_tiles);
  const float factor = *out.scale;
  [[maybe_unused]] const float other_factor = Source::others > 0 ? *out.other_scale : 1;
  const bool transposes = out.transposed != nullptr || Source::others > 0;
  const int64_t rows = source.rows, columns = source.columns;
  const int64_t left = static_cast<int64_t>(blockIdx.x) * tile_side;
  const int64_t step = static_cast<int64_t>(gridDim.y) * tile_side;
  static_assert(tile_threads % tile_chunks == 0);  // so a thread's chunks are in the same columns
  const auto shared_by_rows =
      source.columns_at(left + static_cast<int>(threadIdx.x) % tile_chunks * chunk_bytes);
  uint32_t largest = 0;
  for (int64_t top = static_cast<int64_t>(blockIdx.y) * tile_side; top < rows; top += step) {
    if (transposes) __syncthreads();  // the previous tile has been read
#pragma unroll 1
    for (int batch = 0; batch < chunks_per_thread; batch += in_flight) {
      typename Source::Chunk loaded[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        const int at = (batch + i) * tile_threads + static_cast<int>(threadIdx.x);
        source.load(top + at / tile_chunks, left + at % tile_chunks * chunk_bytes, loaded[i]);
      }
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        const int at = (batch + i) * tile_threads + static_cast<int>(threadIdx.x);
        const int64_t row = top + at / tile_chunks, column = left + at % tile_chunks * chunk_bytes;
        float values[all][chunk_bytes];
        source.values(shared_by_rows, loaded[i], values);
        if constexpr (Source::others > 0) {
          uint32_t unused = 0;
          tiles[parts].put(at / tile_chunks, at % tile_chunks,
                           encode_chunk<e4m3>(values[parts], other_factor, unused));
        }
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          const uint4 bytes = encode_chunk<Q>(values[part], factor, largest);
          if (out.transposed != nullptr) tiles[part].put(at / tile_chunks, at % tile_chunks, bytes);
          if (out.data != nullptr && row < rows && column < columns) {
            store_chunk<vectorized>(out.data + row * parts * columns + source.place(part, column),
                                    bytes, columns - column);
          }
        }
      }
    }
    if (!transposes) continue;
    __syncthreads();
#pragma unroll
    for (int part = 0; part < all; ++part) {
      if (part < parts && out.transposed == nullptr) continue;
      store_transposed<vectorized>(tiles[part], (part < parts ? out.transposed : out.other) + top,
                                   rows, rows - top, columns - left, [&](int column) {
                                     return part < parts ? source.place(part, left + column)
                                                         : left + column;
                                   });
    }
  }
  if (out.amax != nullptr) raise_amax(largest, out.amax);
}

// Calls f with e4m3 or e5m2 as a tag.
template <class F>
void dispatch_fp8(DType dtype, F&& f) {
  if (dtype == DType::e4m3) return f(TypeTag<e4m3>{});
  if (dtype == DType::e5m2) return f(TypeTag<e5m2>{});
  fail("quantize",
       {.argument = "q", .expected = "e4m3 or e5m2", .found = std::string(name(dtype))});
}

// Quantizes the source to `fp8`.
template <class Source>
void quantize_tiles(const Source& source, DType fp8, const TileOutput& out) {
  dispatch_fp8(fp8, [&](auto to) {
    launch(quantize_kernel<Source, typename decltype(to)::type>,
           tile_grid(source.rows, source.columns), dim3(tile_threads),
           out.transposed != nullptr || Source::others > 0
               ? sizeof(ByteTile) * (Source::parts + Source::others)
               : 0,
           source, out);
  });
}

}  // namespace binade::backend::cuda
