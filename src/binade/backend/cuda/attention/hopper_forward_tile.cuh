#pragma once

#include "binade/backend/cuda/attention/hopper_tile.cuh"

// Tiles of Hopper's attention forward within documents, and the channels between its warps.
namespace binade::backend::cuda::native {

// Sizes and places in shared memory for heads of `Dim` elements. Tiles of 64 columns.
template <int Dim_>
struct ForwardTile : AttentionWarps<40> {
  static constexpr int Dim = Dim_, queries = 128, keys = 128;
  static constexpr int tile_bytes = 128 * row_bytes, bytes = Dim / 64 * tile_bytes;
  static constexpr int stages = Dim == 64 ? 3 : 2;  // of k and v; two of q

  static constexpr int q_at = 0, k_at = q_at + 2 * bytes, v_at = k_at + stages * bytes;
  static constexpr int jobs_at = v_at + stages * bytes;  // two of them
  static constexpr int barriers_at = jobs_at + 64;
  static constexpr int shared_bytes = barriers_at + 8 * (8 + 4 * stages);
  static_assert(shared_bytes <= 227 * 1024);
};

template <class T>
struct DocumentsForwardArguments {
  Heads<T> out;
  float* lse;  // [heads, rows]
  Sizes sizes;
  RowSpans spans;
  int query_tiles, groups;  // of a head: tiles, and groups of 16 rows
  float scale;
  int* taken;     // how many tiles of queries have been taken
  int* suspects;  // [heads, groups]: not 0 where the output is not finite
};

struct ForwardMaps {
  CUtensorMap q, k, v;
};

// A tile of queries of one head, as the loading thread has taken it. No head: there are no more.
struct ForwardJob {
  static constexpr int bytes = 32;

  int h = -1, tile = 0;
  TileSpan keys = {};

  __device__ bool exists() const { return h >= 0; }

  // Heads of the same rows follow one another: they share lines of memory.
  template <class T>
  __device__ static ForwardJob at(const DocumentsForwardArguments<T>& a, int index) {
    if (index >= a.query_tiles * a.sizes.heads) return {};
    const int tile = index / a.sizes.heads;
    return {index % a.sizes.heads, tile, key_tiles_of<128, 128>(a.spans, tile)};
  }
  __device__ void store(uint32_t to) const {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(h), "r"(tile) : "memory");
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + 16), "r"(keys.some.first),
                 "r"(keys.some.end), "r"(keys.full.first), "r"(keys.full.end)
                 : "memory");
  }
  __device__ void load(uint32_t from) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(h), "=r"(tile) : "r"(from) : "memory");
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(keys.some.first), "=r"(keys.some.end), "=r"(keys.full.first),
                   "=r"(keys.full.end)
                 : "r"(from + 16)
                 : "memory");
  }
};

template <class Tile>
struct ForwardChannels {
  // Every thread that has read a job arrives, not one of each warp: racecheck does not see that
  // __syncwarp() orders the reads of the others.
  enum Name { jobs, queries, keys, values };
  static constexpr auto channels() {
    return std::array<hopper::Channel<Name>, 4>{{{jobs, 2, 1, warp_size * Tile::warps},
                                                 {queries, 2, 1, Tile::warps},
                                                 {keys, Tile::stages, 1, Tile::warps},
                                                 {values, Tile::stages, 1, Tile::warps}}};
  }
};
template <class Tile>
using ForwardBarriers = hopper::Barriers<ForwardChannels<Tile>>;
static_assert(ForwardTile<64>::barriers_at + ForwardBarriers<ForwardTile<64>>::bytes ==
              ForwardTile<64>::shared_bytes);

}  // namespace binade::backend::cuda::native
