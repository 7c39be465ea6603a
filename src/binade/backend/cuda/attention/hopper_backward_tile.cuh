#pragma once

#include <cuda_bf16.h>

#include "binade/backend/cuda/attention/hopper_tile.cuh"

// Tiles of Hopper's attention backward, the order in which thread blocks take them, and the
// channels between the warps of a thread block.
namespace binade::backend::cuda::native {

// Sizes and places in shared memory for heads of `Dim` elements. Tiles of 64 columns.
template <int Dim_>
struct BackwardTile : AttentionWarps<Dim_ == 64 ? 40 : 24> {
  static constexpr int Dim = Dim_, keys = 128;
  // As many as the registers of two warpgroups can hold results for.
  static constexpr int queries = Dim == 64 ? 128 : 64;
  using AttentionWarps<Dim_ == 64 ? 40 : 24>::row_bytes;

  static constexpr int key_tile = keys * row_bytes, query_tile = queries * row_bytes;
  static constexpr int key_bytes = Dim / 64 * key_tile, query_bytes = Dim / 64 * query_tile;
  static constexpr int gradient_bytes = queries / 64 * key_tile;  // dS, [keys, queries]
  static constexpr int statistic_bytes = queries * 16;

  // Shared memory holds two stages of all.
  static constexpr int k_at = 0, v_at = k_at + 2 * key_bytes;
  static constexpr int q_at = v_at + 2 * key_bytes, dout_at = q_at + 2 * query_bytes;
  static constexpr int gradient_at = dout_at + 2 * query_bytes;
  static constexpr int statistics_at = gradient_at + 2 * gradient_bytes;
  static constexpr int barriers_at = statistics_at + 2 * statistic_bytes;
  static constexpr int jobs_at = barriers_at + 192;
  // Statistics are read as 16 columns, the second 8 being the first ones again. compute-sanitizer
  // takes them for twice as many bytes.
  static constexpr int shared_bytes = statistics_at + 3 * statistic_bytes;
  static_assert(jobs_at + 8 <= shared_bytes && shared_bytes <= 227 * 1024);
};

// An f32 as three bf16 whose sum it is, and a zero, for matmuls to add.
__device__ inline uint2 split(float x) {
  uint32_t bits[3];
  for (uint32_t& part : bits) {
    part = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    x -= __uint_as_float(part << 16);
  }
  return {bits[0] | bits[1] << 16, bits[2]};
}

// Of a query: what its scores lack to be log(probability) / scale, and what the gradients of its
// probabilities lack to be those of its scores over its probabilities.
struct alignas(16) QueryStatistics {
  uint2 minus_lse, minus_delta;
};

// Within documents; a head's queries in `statistics` are padded to `padded_rows` then.
struct DocumentTiles {
  RowSpans spans;
  int key_tiles, query_tiles;  // of a head
  int padded_rows;             // of all tiles of keys
  TileSpan* queries_of_keys;   // [tiles of keys]
  Span* keys_of_queries;       // [tiles of queries]
  int* suspects;  // [heads of q and k, padded rows / 16]: not 0 where gradients are not finite
};

// Arguments of the kernel beside its tensor maps.
template <class T>
struct HopperArguments {
  Heads<T> dq, dk, dv;
  Sizes sizes;
  float scale;
  const QueryStatistics* statistics;  // [batch, heads, queries]
  float* sums;  // [batch, heads, tiles, 2, 8, 128, 4]: dq in f32 as threads hold it
  int* turns;   // [batch, heads, tiles]: how many blocks have added to each tile of dq
  int* taken;   // how many tiles of keys have been taken
  // If needed, sums of columns by each warp that computes: [batch, tiles, warps, heads of q, k and
  // v, Dim].
  float* column_sums;
  DocumentTiles documents;
};

struct HopperMaps {
  CUtensorMap q, k, v, dout;
};

// A tile of dq to which a step adds.
struct DqTile {
  int index = 0;      // among those of all heads
  int turn = 0;       // how many tiles of keys add before this step
  bool last = false;  // no tile of keys adds after it
};

// The tiles of keys that a thread block takes, one after the other. All warps walk alike.
template <class Tile>
class KeyWalk {
 public:
  int b = 0, kv = 0;
  int tile = 0;  // the tile of keys

  template <class T>
  __device__ explicit KeyWalk(const HopperArguments<T>& a) : sizes_(a.sizes) {}

  // Goes to a tile by its index among those of all heads, last ones of a head first. False after
  // the last one.
  __device__ bool go_to(int index) {
    if (index >= sizes_.batch * sizes_.kv_heads * key_tiles()) return false;
    const int head = index / key_tiles();
    b = head / sizes_.kv_heads;
    kv = head % sizes_.kv_heads;
    tile = key_tiles() - 1 - index % key_tiles();
    return true;
  }

  __device__ int key_tiles() const { return sizes_.keys / Tile::keys; }
  __device__ int query_tiles() const { return sizes_.queries / Tile::queries; }
  // The tiles of queries that see the tile of keys.
  __device__ int first_query_tile() const {
    return sizes_.causal ? tile * (Tile::keys / Tile::queries) : 0;
  }
  __device__ int end_query_tile() const { return query_tiles(); }
  // The heads that read the keys.
  __device__ int first_head() const { return kv * sizes_.group(); }
  __device__ int heads() const { return sizes_.group(); }

  // Tiles of keys add to dq in descending order.
  __device__ DqTile dq_tile(int h, int q) const {
    const int first = sizes_.causal ? q * Tile::queries / Tile::keys : key_tiles() - 1;
    return {(b * sizes_.heads + h) * query_tiles() + q, first - tile, tile == 0};
  }

 private:
  const Sizes& sizes_;
};

// The same within documents.
template <class Tile>
class DocumentWalk {
 public:
  int kv = 0, tile = 0;
  static constexpr int b = 0;

  template <class T>
  __device__ explicit DocumentWalk(const HopperArguments<T>& a)
      : sizes_(a.sizes), documents_(a.documents) {}

  __device__ bool go_to(int index) {
    if (index >= sizes_.kv_heads * key_tiles()) return false;
    kv = index / key_tiles();
    tile = key_tiles() - 1 - index % key_tiles();
    queries_ = documents_.queries_of_keys[tile];
    return true;
  }

  __device__ int key_tiles() const { return documents_.key_tiles; }
  __device__ int query_tiles() const { return documents_.query_tiles; }
  __device__ int first_query_tile() const { return queries_.some.first; }
  __device__ int end_query_tile() const { return queries_.some.end; }
  // Whether some of the queries do not see some of the keys.
  __device__ bool hides(int query_tile) const {
    return query_tile < queries_.full.first || query_tile >= queries_.full.end;
  }
  __device__ int first_head() const { return kv * sizes_.group(); }
  __device__ int heads() const { return sizes_.group(); }

  __device__ DqTile dq_tile(int h, int q) const {
    const Span keys = documents_.keys_of_queries[q];
    return {h * query_tiles() + q, keys.end - 1 - tile, tile == keys.first};
  }

 private:
  const Sizes& sizes_;
  const DocumentTiles& documents_;
  TileSpan queries_ = {};
};

// A step of a tile of keys is a tile of queries of a head that reads it.
template <class Walk>
__device__ inline int steps_of(const Walk& walk) {
  return walk.heads() * (walk.end_query_tile() - walk.first_query_tile());
}
// Calls f(h, tile of queries) for each.
template <class Walk, class F>
__device__ inline void for_each_step(const Walk& walk, F&& f) {
  for (int h = walk.first_head(); h < walk.first_head() + walk.heads(); ++h)
    for (int q = walk.first_query_tile(); q < walk.end_query_tile(); ++q) f(h, q);
}

template <class Walk>
inline constexpr bool is_document_walk = false;
template <class Tile>
inline constexpr bool is_document_walk<DocumentWalk<Tile>> = true;

struct BackwardChannels {
  // Values have the stages of keys. Gradients are those of scores, dS, which a step writes and the
  // next one reads.
  // Turns: a step may add to dq (full), and has issued its additions (empty). Both threads that
  // keep turns arrive at the former once they know the latter of the step before, so that neither
  // misses a phase.
  enum Name { keys, values, queries, douts, gradients, turns, jobs };
  static constexpr auto channels() {
    constexpr int warps = BackwardTile<64>::warps;
    return std::array<hopper::Channel<Name>, 7>{
        {{keys, 2, 1, warps},
         {values, 2, 1, warps},
         {queries, 2, 1, warps},
         {douts, 2, 1, warps},
         {gradients, 1, warps, warps},
         {turns, 1, 2, warps},
         {jobs, 2, 1, warps + 2}}};  // and the threads that keep turns
  }
};
using BackwardBarriers = hopper::Barriers<BackwardChannels>;
static_assert(BackwardBarriers::bytes == 192);

// Waits until `turn` thread blocks have added to a tile of dq. No acquire: sums are added to and
// read where the additions of all thread blocks are, in the L2 cache, and an acquire would drop the
// L1 cache and with it the loading warps' local memory.
__device__ inline void wait_turn(const int* turns, int turn) {
  int done = 0;
  do {
    asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(done) : "l"(turns) : "memory");
  } while (done != turn);
}
// After the additions of all threads of this block that arrived before.
__device__ inline void end_turn(int* turns, int turn) {
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(turns), "r"(turn + 1) : "memory");
}

// The index of a tile of keys that the loading thread has taken.
struct BackwardJob {
  static constexpr int bytes = 4;

  int index;

  __device__ void store(uint32_t to) const {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(index) : "memory");
  }
  __device__ void load(uint32_t from) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(index) : "r"(from) : "memory");
  }
};

// Reads the indices.
template <class Tile>
class IndexReader {
 public:
  __device__ IndexReader(uint32_t shared, BackwardBarriers barriers)
      : shared_(shared), barriers_(barriers) {}

  // arrive(barrier): says that this reader is done.
  template <class F>
  __device__ int next(F&& arrive) {
    BackwardJob job;
    read_job(job, shared_ + Tile::jobs_at, barriers_, ring_, arrive);
    ring_.advance();
    return job.index;
  }

 private:
  const uint32_t shared_;
  const BackwardBarriers barriers_;
  hopper::Ring<2> ring_;
};

}  // namespace binade::backend::cuda::native
