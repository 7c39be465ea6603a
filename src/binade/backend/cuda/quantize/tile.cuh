#pragma once

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/byte_transpose.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/quantize/fp8_encode.cuh"
#include "binade/backend/quantize.h"

// Codes of a matrix by tiles, along its rows and transposed, whatever the matrix comes from.
namespace binade::backend::cuda {

// Magnitudes compare as their bits do; NaN's are above all others.
__device__ inline uint32_t magnitude_bits(float x) { return formats::float_bits(x) & 0x7fffffffu; }

// Maxima join in any order with the same result, so this is deterministic. All threads of the block
// call it.
__device__ inline void join_amax(uint32_t bits, float* amax) {
  __shared__ uint32_t scratch[warp_size];
  bits = reduce_block(bits, Max{}, 0u, scratch);
  if (threadIdx.x == 0 && bits != 0) atomicMax(reinterpret_cast<unsigned*>(amax), bits);
}

// 16 neighbours in memory, kept as the words they are loaded as (single 16-bit elements would take
// a register each).
template <class T>
struct Words {
  uint4 quads[sizeof(T)];

  // All of them, or 0 where none `exist`.
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

// A block quantizes 128 x 128 elements at a time, written along the rows to q and, transposed in
// shared memory, to `transposed`; either may be null. A Source is a matrix [rows, parts * columns]:
//   whole      whether its rows and columns come in chunks of 16 at aligned addresses
//   parts      matrices side by side that are made from the same operands
//   in_flight  chunks loaded before the first is used, within what registers hold
//   load       fetches the operands of 16 neighbours of each part
//   values     makes those neighbours, 0 past the matrix's end
template <class Source, class Q>
__global__ void __launch_bounds__(tile_threads, Source::whole ? 3 : 1)
    quantize_kernel(const __grid_constant__ Source source, const float* scale, uint8_t* q,
                    uint8_t* transposed, float* amax) {
  constexpr int parts = Source::parts, in_flight = Source::in_flight;
  constexpr bool whole = Source::whole;
  static_assert(chunks_per_thread % in_flight == 0);
  __shared__ ByteTile tiles[parts];
  const float factor = *scale;
  const int64_t rows = source.rows, columns = source.columns;
  const int64_t left = static_cast<int64_t>(blockIdx.x) * tile_side;
  const int64_t step = static_cast<int64_t>(gridDim.y) * tile_side;
  uint32_t largest = 0;
  for (int64_t top = static_cast<int64_t>(blockIdx.y) * tile_side; top < rows; top += step) {
    if (transposed != nullptr) __syncthreads();  // the tile before this one has been read
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
        float values[parts][chunk_bytes];
        source.values(row, column, loaded[i], values);
#pragma unroll
        for (int part = 0; part < parts; ++part) {
#pragma unroll
          for (int j = 0; j < chunk_bytes; ++j)
            largest = max(largest, magnitude_bits(values[part][j]));
          const uint4 codes = encode_chunk<Q>(values[part], factor);
          if (transposed != nullptr) tiles[part].put(at / tile_chunks, at % tile_chunks, codes);
          if (q != nullptr && row < rows && column < columns) {
            store_chunk<whole>(q + (row * parts + part) * columns + column, codes,
                               columns - column);
          }
        }
      }
    }
    if (transposed == nullptr) continue;
    __syncthreads();
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      store_transposed<whole>(tiles[part], transposed + (part * columns + left) * rows + top, rows,
                              rows - top, columns - left);
    }
  }
  if (amax != nullptr) join_amax(largest, amax);
}

// e4m3 or e5m2 as a tag.
template <class F>
void dispatch_fp8(DType dtype, F&& f) {
  if (dtype == DType::e4m3) return f(TypeTag<e4m3>{});
  if (dtype == DType::e5m2) return f(TypeTag<e5m2>{});
  fail("quantize",
       {.argument = "q", .expected = "e4m3 or e5m2", .found = std::string(name(dtype))});
}

// Whether codes [rows, columns], of which `part` columns belong together, go to q and `transposed`
// in whole chunks of 16.
inline bool written_whole(int64_t rows, int64_t part, const uint8_t* q, const uint8_t* transposed) {
  const auto fits = [](const void* address) { return packs_fit<uint8_t, chunk_bytes>(address); };
  return part % chunk_bytes == 0 && fits(q) && fits(transposed) &&
         (transposed == nullptr || rows % chunk_bytes == 0);
}

// Starts the kernel on the source's codes as `fp8`.
template <class Source>
void quantize_tiles(const Source& source, DType fp8, const TensorView& scale, uint8_t* q,
                    uint8_t* transposed, const TensorView& amax) {
  dispatch_fp8(fp8, [&](auto to) {
    launch(quantize_kernel<Source, typename decltype(to)::type>,
           tile_grid(source.rows, source.columns), dim3(tile_threads), 0, source,
           scale.as<const float>(), q, transposed, amax.present ? amax.as<float>() : nullptr);
  });
}

}  // namespace binade::backend::cuda
