#pragma once

#include <type_traits>

#include "binade/backend/cuda/common/hopper.cuh"
#include "binade/backend/cuda/common/launch.cuh"

// A matmul c [m, n] = a [m, k] b [k, n] of 16-bit operands in tiles that pass through shared
// memory: one warp loads operands, two warpgroups multiply, and other warps process the tile
// before. Operands are read as zeros past their ends, so that the last tiles need not be whole.
namespace binade::backend::cuda::fused {

// Of one thread block. Two of them, a cluster, share the columns and each other's loads of b.
struct Tile {
  static constexpr int rows = 128, columns = 256, depth = 64;
  static constexpr int least_depth = 2 * depth;  // of a matmul
  static constexpr int cluster = 2;
  static constexpr int most_processing_warps = 7;

  // Operands lie in boxes of 64 columns, 128 bytes a row.
  static constexpr int row_bytes = 128, box = 64;
  static constexpr int a_bytes = rows * row_bytes, b_box_bytes = depth * row_bytes;
  static constexpr int stage_bytes = a_bytes + columns / box * b_box_bytes;
  // As many as fit beside a tile of results.
  static constexpr int stages = 3;
  static constexpr int half_rows = rows / 2;  // of one multiplying warpgroup

  // Results lie in boxes of 64 columns, too.
  static constexpr int results_at = stages * stage_bytes, result_box_bytes = rows * row_bytes;
  static constexpr int sums_at = results_at + columns / box * result_box_bytes;
  static constexpr int barriers_at = sums_at + most_processing_warps * columns * 4;
  static constexpr int shared_bytes = barriers_at + 16 * stages + 32;
  static_assert(shared_bytes <= 227 * 1024);
};

// The warps of a thread block, and the registers of their threads: 128 of a multiplying one hold
// results.

// Seven warps process, for tiles that are multiplied in a short time. The compiler grants so many
// threads too few registers for matmuls of all columns of a tile: each is divided in two.
struct SevenProcess {
  static constexpr int processing_warps = 7, threads = 512;
  static constexpr int multiplying_registers = 160, processing_registers = 96;
  static constexpr int sides = 2;
};
// Three warps process, for sums that take long enough. Matmuls of all columns read less of shared
// memory, whose bandwidth limits them.
struct ThreeProcess {
  static constexpr int processing_warps = 3, threads = 384;
  static constexpr int multiplying_registers = 184, processing_registers = 136;
  static constexpr int sides = 1;
};

struct MatmulSizes {
  int m, n, k;
  const void* bias = nullptr;  // [n], added to results before they are rounded
  // A tile may have columns of two places: the right half begins `apart` columns after the left.
  int apart = Tile::columns / 2;

  // Where a column of a tile is, from the tile's first one.
  __device__ int place(int column) const {
    return column < Tile::columns / 2 ? column : column - Tile::columns / 2 + apart;
  }
  // From a tile to the next.
  __device__ int step() const {
    return apart == Tile::columns / 2 ? Tile::columns : Tile::columns / 2;
  }
};

// How the second operand is stored.
enum class Order {
  k_by_n,  // rows of n elements
  n_by_k   // rows of k elements, which lie side by side as those of the first
};

// Barriers in shared memory. A stage of operands is full once its loads are complete and empty once
// the multiplying warps of both thread blocks have read it, since both load into it. Results of a
// warpgroup are full once it has written them and empty once they are processed.
struct Barriers {
  uint32_t base;

  __device__ uint32_t full(int stage) const { return base + 8 * stage; }
  __device__ uint32_t empty(int stage) const { return base + 8 * (Tile::stages + stage); }
  __device__ uint32_t results_full(int half) const { return base + 16 * Tile::stages + 8 * half; }
  __device__ uint32_t results_empty(int half) const { return results_full(half) + 16; }

  // One thread.
  __device__ void init(int processing_warps) const {
    constexpr int multiplying_warps = 4;  // of a warpgroup
    for (int stage = 0; stage < Tile::stages; ++stage) {
      hopper::init_barrier(full(stage), 1);
      hopper::init_barrier(empty(stage), 2 * multiplying_warps * Tile::cluster);
    }
    for (int half = 0; half < 2; ++half) {
      hopper::init_barrier(results_full(half), multiplying_warps);
      hopper::init_barrier(results_empty(half), processing_warps);
    }
    hopper::publish_barriers();
  }
};

// The tiles that a thread block takes, one after the other; all its warps walk alike. Clusters take
// tiles from groups of rows, so that those multiplied at the same time share operands in the cache.
class TileWalk {
 public:
  int row = 0, column = 0;  // the first ones

  __device__ explicit TileWalk(const MatmulSizes& sizes)
      : down_(ceil_div(sizes.m, Tile::rows * Tile::cluster)),
        across_(ceil_div(sizes.n, Tile::columns)),
        step_(sizes.step()),
        index_(static_cast<int>(blockIdx.x) / Tile::cluster) {
    go();
  }

  __device__ bool at_end() const { return index_ >= down_ * across_; }
  // The last tile stays in place at the end.
  __device__ void advance() {
    index_ += static_cast<int>(gridDim.x) / Tile::cluster;
    if (!at_end()) go();
  }

 private:
  static constexpr int group_rows = 8;  // of clusters

  __device__ void go() {
    const int group = index_ / (group_rows * across_), in_group = index_ % (group_rows * across_);
    const int rows = min(group_rows, down_ - group * group_rows);
    const int cluster_row = group * group_rows + in_group % rows;
    row = (cluster_row * Tile::cluster + static_cast<int>(blockIdx.x) % Tile::cluster) * Tile::rows;
    column = in_group / rows * step_;
  }

  int down_, across_, step_, index_;
};

// The place in a ring of stages, and the parity of the current round.
struct Ring {
  int stage = 0;
  uint32_t phase = 0;

  __device__ void advance() {
    if (++stage < Tile::stages) return;
    stage = 0;
    phase ^= 1;
  }
  __device__ int stage_before() const { return (stage == 0 ? Tile::stages : stage) - 1; }
};

// ---- Instructions

struct MatrixCorner {
  int column, row;
};

// The box of a matrix from its corner on, into shared memory.
__device__ inline void load_box(uint32_t to, const CUtensorMap& map, const MatrixCorner& at,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier)
      : "memory");
}
// From shared memory to the box of a matrix.
__device__ inline void store_box(const CUtensorMap& map, const MatrixCorner& at, uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(at.column), "r"(at.row), "r"(from)
      : "memory");
}
// This thread's stores so far are one group.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until this thread's stores have read shared memory.
__device__ inline void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Into that of both thread blocks of a cluster, completing on the barriers of both.
__device__ inline void load_box_to_cluster(uint32_t to, const CUtensorMap& map,
                                           const MatrixCorner& at, uint32_t barrier) {
  constexpr uint16_t both = 3;
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier), "h"(both)
      : "memory");
}

// At a barrier of a thread block of the cluster.
__device__ inline void arrive_at(uint32_t barrier, int block) {
  asm volatile(
      "{\n.reg .b32 address;\nmapa.shared::cluster.u32 address, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [address];\n}" ::"r"(barrier),
      "r"(block)
      : "memory");
}

__device__ inline void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// ---- Loading

// Loads this thread block's part of b's stage for both of its cluster.
template <Order order>
__device__ inline void load_b(uint32_t to, const CUtensorMap& b, const MatrixCorner& at,
                              const MatmulSizes& sizes, uint32_t full) {
  const int half = static_cast<int>(blockIdx.x) % Tile::cluster;
  if constexpr (order == Order::n_by_k) {
    constexpr int rows = Tile::columns / Tile::cluster;
    load_box_to_cluster(to + half * rows * Tile::row_bytes, b,
                        {at.row, at.column + sizes.place(half * rows)}, full);
  } else {
    constexpr int boxes = Tile::columns / Tile::box / Tile::cluster;
#pragma unroll
    for (int i = half * boxes; i < (half + 1) * boxes; ++i)
      load_box_to_cluster(to + i * Tile::b_box_bytes, b,
                          {at.column + sizes.place(i * Tile::box), at.row}, full);
  }
}

// Loads the operands of all tiles. One thread.
template <Order order>
__device__ inline void load_operands(const CUtensorMap& a, const CUtensorMap& b,
                                     const MatmulSizes& sizes, uint32_t shared, Barriers barriers) {
  using namespace hopper;
  Ring ring;
  for (TileWalk walk(sizes); !walk.at_end(); walk.advance()) {
    for (int k = 0; k < sizes.k; k += Tile::depth, ring.advance()) {
      const uint32_t to = shared + ring.stage * Tile::stage_bytes, full = barriers.full(ring.stage);
      wait(barriers.empty(ring.stage), ring.phase ^ 1);
      arrive_expecting(full, Tile::stage_bytes);
      fused::load_box(to, a, {k, walk.row}, full);
      load_b<order>(to + Tile::a_bytes, b, {walk.column, k}, sizes, full);
    }
  }
}

}  // namespace binade::backend::cuda::fused
