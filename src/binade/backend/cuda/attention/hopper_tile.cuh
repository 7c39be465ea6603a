#pragma once

#include <cuda_bf16.h>

#include "binade/backend/cuda/attention/common.cuh"
#include "binade/backend/cuda/attention/row_spans.cuh"
#include "binade/backend/cuda/common/hopper.cuh"

// Tiles of Hopper's attention backward, the order in which thread blocks take them, and the
// barriers between the warps of a thread block.
namespace binade::backend::cuda::native {

// Sizes and places in shared memory for heads of `Dim` elements. Tiles of 64 columns.
template <int Dim_>
struct HopperTile {
  static constexpr int Dim = Dim_, keys = 128;
  // As many as the registers of two warpgroups can hold results for.
  static constexpr int queries = Dim == 64 ? 128 : 64;
  static constexpr int threads = 384, warps = 8;  // warps that compute
  // The compiler gives each thread 168 registers; the loading warpgroup leaves most of its own to
  // the two that compute.
  static constexpr int loader_registers = Dim == 64 ? 40 : 24;
  static constexpr int registers = (3 * 168 - loader_registers) / 2;

  static constexpr int row_bytes = 128;  // of a tile
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
  static constexpr int indices_at = barriers_at + 192;
  // Statistics are read as 16 columns, the second 8 being the first ones again. compute-sanitizer
  // takes them for twice as many bytes.
  static constexpr int shared_bytes = statistics_at + 3 * statistic_bytes;
  static_assert(indices_at + 8 <= shared_bytes && shared_bytes <= 227 * 1024);
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
  // The first head that reads the keys.
  __device__ int first_head() const { return kv * sizes_.group(); }
  // Tiles of queries of all heads that read the tile of keys.
  __device__ int steps() const { return sizes_.group() * (query_tiles() - first_query_tile()); }

  // Tiles of keys add to dq in descending order.
  __device__ DqTile dq_tile(int h, int q) const {
    const int first = sizes_.causal ? q * Tile::queries / Tile::keys : key_tiles() - 1;
    return {(b * sizes_.heads + h) * query_tiles() + q, first - tile, tile == 0};
  }

  // Calls f(h, tile of queries) for each step.
  template <class F>
  __device__ void for_each_step(F&& f) const {
    for (int h = first_head(); h < first_head() + sizes_.group(); ++h)
      for (int q = first_query_tile(); q < query_tiles(); ++q) f(h, q);
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
  __device__ int steps() const { return sizes_.group() * (end_query_tile() - first_query_tile()); }

  __device__ DqTile dq_tile(int h, int q) const {
    const Span keys = documents_.keys_of_queries[q];
    return {h * query_tiles() + q, keys.end - 1 - tile, tile == keys.first};
  }

  template <class F>
  __device__ void for_each_step(F&& f) const {
    for (int h = first_head(); h < first_head() + sizes_.group(); ++h)
      for (int q = first_query_tile(); q < end_query_tile(); ++q) f(h, q);
  }

 private:
  const Sizes& sizes_;
  const DocumentTiles& documents_;
  TileSpan queries_ = {};
};

template <class Walk>
inline constexpr bool is_document_walk = false;
template <class Tile>
inline constexpr bool is_document_walk<DocumentWalk<Tile>> = true;

// Barriers in shared memory: a stage is full once its copies or writes are complete, and empty once
// its readers are done.
struct HopperBarriers {
  uint32_t base;

  __device__ uint32_t k_full(int stage) const { return base + 8 * stage; }
  __device__ uint32_t k_empty(int stage) const { return base + 16 + 8 * stage; }
  __device__ uint32_t v_full(int stage) const { return base + 32 + 8 * stage; }
  __device__ uint32_t v_empty(int stage) const { return base + 48 + 8 * stage; }
  __device__ uint32_t q_full(int stage) const { return base + 64 + 8 * stage; }
  __device__ uint32_t q_empty(int stage) const { return base + 80 + 8 * stage; }
  __device__ uint32_t dout_full(int stage) const { return base + 96 + 8 * stage; }
  __device__ uint32_t dout_empty(int stage) const { return base + 112 + 8 * stage; }
  __device__ uint32_t gradients_full() const { return base + 128; }
  __device__ uint32_t gradients_empty() const { return base + 184; }
  // A step may add to dq, and has issued its additions. Both threads that keep turns arrive at the
  // former once they know the latter of the step before, so that neither misses a phase.
  __device__ uint32_t turn() const { return base + 136; }
  __device__ uint32_t added() const { return base + 144; }
  __device__ uint32_t index_full(int stage) const { return base + 152 + 8 * stage; }
  __device__ uint32_t index_empty(int stage) const { return base + 168 + 8 * stage; }

  __device__ void init() const {
    constexpr int warps = HopperTile<64>::warps;  // one lane of each arrives
    for (int i = 0; i < 2; ++i) {
      for (const uint32_t full : {k_full(i), v_full(i), q_full(i), dout_full(i), index_full(i)})
        hopper::init_barrier(full, 1);
      for (const uint32_t empty : {k_empty(i), v_empty(i), q_empty(i), dout_empty(i)})
        hopper::init_barrier(empty, warps);
      hopper::init_barrier(index_empty(i), warps + 2);  // and the threads that keep turns
    }
    hopper::init_barrier(gradients_full(), warps);
    hopper::init_barrier(gradients_empty(), warps);
    hopper::init_barrier(turn(), 2);
    hopper::init_barrier(added(), warps);
    hopper::publish_barriers();
  }
};

// A position in a ring of stages. Readers wait for `phase` of a full stage, writers for the other
// phase of an empty one.
template <int Stages>
struct StageRing {
  int stage = 0;
  uint32_t phase = 0;

  __device__ void advance() {
    if (++stage == Stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

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

// The indices of tiles that the loading thread has taken.
template <class Tile>
class IndexReader {
 public:
  __device__ IndexReader(uint32_t shared, HopperBarriers barriers)
      : shared_(shared), barriers_(barriers) {}

  // arrive(barrier): says that this reader is done.
  template <class F>
  __device__ int next(F&& arrive) {
    hopper::wait(barriers_.index_full(ring_.stage), ring_.phase);
    int index = 0;
    asm volatile("ld.shared.b32 %0, [%1];"
                 : "=r"(index)
                 : "r"(shared_ + Tile::indices_at + 4 * ring_.stage)
                 : "memory");
    arrive(barriers_.index_empty(ring_.stage));
    ring_.advance();
    return index;
  }

 private:
  const uint32_t shared_;
  const HopperBarriers barriers_;
  StageRing<2> ring_;
};

}  // namespace binade::backend::cuda::native
