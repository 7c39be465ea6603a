#pragma once

#include "binade/backend/cuda/attention/hopper_tile.cuh"

// Tiles of Hopper's attention forward within documents, and the barriers between its warps.
namespace binade::backend::cuda::native {

// Sizes and places in shared memory for heads of `Dim` elements. Tiles of 64 columns.
template <int Dim_>
struct ForwardTile {
  static constexpr int Dim = Dim_, queries = 128, keys = 128;
  static constexpr int threads = 384, warps = 8;  // warps that compute
  static constexpr int loader_registers = 40, registers = (3 * 168 - loader_registers) / 2;

  static constexpr int row_bytes = 128;  // of a tile
  static constexpr int tile_bytes = 128 * row_bytes, bytes = Dim / 64 * tile_bytes;
  static constexpr int stages = Dim == 64 ? 3 : 2;  // of k and v; two of q

  static constexpr int q_at = 0, k_at = q_at + 2 * bytes, v_at = k_at + stages * bytes;
  static constexpr int jobs_at = v_at + stages * bytes;  // two of 32 bytes
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

// As HopperBarriers.
template <class Tile>
struct ForwardBarriers {
  uint32_t base;

  __device__ uint32_t job_full(int stage) const { return base + 8 * stage; }
  __device__ uint32_t job_empty(int stage) const { return base + 16 + 8 * stage; }
  __device__ uint32_t q_full(int stage) const { return base + 32 + 8 * stage; }
  __device__ uint32_t q_empty(int stage) const { return base + 48 + 8 * stage; }
  __device__ uint32_t k_full(int stage) const { return ring(0) + 8 * stage; }
  __device__ uint32_t k_empty(int stage) const { return ring(1) + 8 * stage; }
  __device__ uint32_t v_full(int stage) const { return ring(2) + 8 * stage; }
  __device__ uint32_t v_empty(int stage) const { return ring(3) + 8 * stage; }

  __device__ void init() const {
    for (int i = 0; i < 2; ++i) {
      hopper::init_barrier(job_full(i), 1);
      hopper::init_barrier(q_full(i), 1);
      hopper::init_barrier(job_empty(i), Tile::warps);
      hopper::init_barrier(q_empty(i), Tile::warps);
    }
    for (int i = 0; i < Tile::stages; ++i) {
      for (const uint32_t full : {k_full(i), v_full(i)}) hopper::init_barrier(full, 1);
      for (const uint32_t empty : {k_empty(i), v_empty(i)})
        hopper::init_barrier(empty, Tile::warps);
    }
    hopper::publish_barriers();
  }

 private:
  __device__ uint32_t ring(int i) const { return base + 64 + 8 * Tile::stages * i; }
};

}  // namespace binade::backend::cuda::native
