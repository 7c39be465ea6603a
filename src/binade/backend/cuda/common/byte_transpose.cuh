#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "binade/backend/cuda/common/launch.cuh"

// Transposition of byte matrices by tiles; reads and writes move 16 bytes at a time.
namespace binade::backend::cuda {

inline constexpr int tile_side = 128;
inline constexpr int tile_threads = 256;
inline constexpr int chunk_bytes = 16;
inline constexpr int tile_chunks = tile_side / chunk_bytes;  // per row
// The chunks of a tile that one thread loads.
inline constexpr int chunks_per_thread = tile_side * tile_chunks / tile_threads;

// 128 x 128 bytes in shared memory, in chunks of 16. Each run of 16 rows permutes its chunks, so
// that reading a column of words uses every bank once.
struct ByteTile {
  uint4 chunks[tile_side * tile_chunks];

  __device__ void put(int row, int chunk, uint4 bytes) {
    chunks[row * tile_chunks + (chunk ^ row / chunk_bytes)] = bytes;
  }
  // Word `word` of the 32 of a row.
  __device__ uint32_t word(int row, int word) const {
    const int chunk = (word / 4) ^ (row / chunk_bytes);
    return reinterpret_cast<const uint32_t*>(chunks)[(row * tile_chunks + chunk) * 4 + word % 4];
  }
};

// Transposes rows a, b, c, d of four bytes each.
__device__ inline void transpose_words(uint32_t a, uint32_t b, uint32_t c, uint32_t d,
                                       uint32_t (&columns)[4]) {
  const uint32_t ab_low = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);
  const uint32_t cd_low = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);
  columns[0] = __byte_perm(ab_low, cd_low, 0x5410);
  columns[1] = __byte_perm(ab_low, cd_low, 0x7632);
  columns[2] = __byte_perm(ab_high, cd_high, 0x5410);
  columns[3] = __byte_perm(ab_high, cd_high, 0x7632);
}

// Stores the first `count` of 16 bytes; if `vectorized`, all of them to an aligned address.
template <bool vectorized>
__device__ inline void store_chunk(uint8_t* to, uint4 bytes, int64_t count) {
  if constexpr (vectorized) {
    *reinterpret_cast<uint4*>(to) = bytes;
  } else {
    const uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) {
      if (i < count) to[i] = static_cast<uint8_t>(words[i / 4] >> (i % 4 * 8));
    }
  }
}

// Writes the tile transposed: its column c becomes row place(c) of `to`, whose rows are `pitch`
// bytes apart; chunks of columns stay adjacent. Only the first `rows` and `columns` of the tile are
// valid. All 256 threads must call it, after a __syncthreads().
template <bool vectorized, class Place>
__device__ inline void store_transposed(const ByteTile& tile, uint8_t* to, int64_t pitch,
                                        int64_t rows, int64_t columns, Place place) {
  // Eight neighboring lanes write 128 bytes of one column.
  const int lane = threadIdx.x % warp_size;
  const int top = lane % 8 * chunk_bytes;
  const int word = static_cast<int>(threadIdx.x) / warp_size * 4 + lane / 8;
  if (top >= rows) return;
  uint32_t transposed[4][4];  // [column][four rows]
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t column[4];
    transpose_words(tile.word(top + 4 * i, word), tile.word(top + 4 * i + 1, word),
                    tile.word(top + 4 * i + 2, word), tile.word(top + 4 * i + 3, word), column);
#pragma unroll
    for (int c = 0; c < 4; ++c) transposed[c][i] = column[c];
  }
  const auto first = place(4 * word);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (4 * word + c >= columns) return;
    store_chunk<vectorized>(
        to + (first + c) * pitch + top,
        {transposed[c][0], transposed[c][1], transposed[c][2], transposed[c][3]}, rows - top);
  }
}
// Of columns that stay where they are.
template <bool vectorized>
__device__ inline void store_transposed(const ByteTile& tile, uint8_t* to, int64_t pitch,
                                        int64_t rows, int64_t columns) {
  store_transposed<vectorized>(tile, to, pitch, rows, columns, [](int column) { return column; });
}

// One block per tile, rows of tiles along y; kernels loop over more than fit.
inline dim3 tile_grid(int64_t rows, int64_t columns, int64_t batch = 1) {
  const int64_t down = divide_up(rows, tile_side);
  return dim3(static_cast<unsigned>(divide_up(columns, tile_side)),
              static_cast<unsigned>(down < 65535 ? down : 65535), static_cast<unsigned>(batch));
}

}  // namespace binade::backend::cuda
