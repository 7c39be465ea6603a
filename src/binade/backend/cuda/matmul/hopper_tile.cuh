#pragma once

#include "binade/backend/cuda/common/hopper_pipeline.cuh"

// A matmul c [m, n] = a [m, k] b [k, n] of 16-bit operands in tiles that pass through shared
// memory: one warp loads operands, two warpgroups multiply, and other warps process the tile
// before. Operands are read as zeros past their ends, so that the last tiles need not be whole.
namespace binade::backend::cuda::fused {

// Of one thread block. Two of them, a cluster, share the columns and each other's loads of b.
struct Tile {
  static constexpr int rows = 128, columns = 256, depth = 64;
  static constexpr int least_depth = 2 * depth;  // of a matmul
  // Measured on an H200 by SwiGLU's matmuls of 16384 x 5632 x 2048, power-limited: the gradient
  // takes 661 us; in clusters of one 680 and of four 694.
  static constexpr int cluster = 2;
  static constexpr int most_processing_warps = 7;

  // Operands lie in boxes of 64 columns, 128 bytes a row.
  static constexpr int row_bytes = 128, box = 64;
  static constexpr int a_bytes = rows * row_bytes, b_box_bytes = depth * row_bytes;
  static constexpr int stage_bytes = a_bytes + columns / box * b_box_bytes;
  // As many as fit beside a tile of results. A fourth, in the memory of the results, made the
  // gradient above 1% faster and the forward no faster.
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

// Seven warps process, for tiles that are multiplied in a short time: GELU of 768 products takes
// 589 us on an H200, with three 629. The compiler grants so many threads too few registers for
// matmuls of all columns of a tile: each is divided in two.
struct SevenProcess {
  static constexpr int processing_warps = 7, threads = 512;
  static constexpr int multiplying_registers = 160, processing_registers = 96;
  static constexpr int sides = 2;
};
// Three warps process, for sums that take long enough. Matmuls of all columns read less of shared
// memory, whose bandwidth limits them: the gradient of SwiGLU, 16384 x 5632 x 2048, takes 658 us on
// an H200, with seven 695.
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

// The channels between the warps of a thread block.
template <class Team>
struct Channels {
  // Operands are read by the multiplying warps of both thread blocks, since both load into a stage.
  // Results have a stage for each multiplying warpgroup.
  enum Name { operands, results };
  static constexpr auto channels() {
    constexpr int multiplying_warps = 4;  // of a warpgroup
    return std::array<hopper::Channel<Name>, 2>{
        {{operands, Tile::stages, 1, 2 * multiplying_warps * Tile::cluster},
         {results, 2, multiplying_warps, Team::processing_warps}}};
  }
};
template <class Team>
using Barriers = hopper::Barriers<Channels<Team>>;
static_assert(Tile::barriers_at + Barriers<SevenProcess>::bytes <= Tile::shared_bytes);

// Barriers of the hardware.
enum class HardwareBarrier { thread_block, processing_warps, upper_multiplier, lower_multiplier };

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
  // Of clusters. Measured on an H200 by SwiGLU's forward and gradient, 16384 x 5632 x 2048: 1,171
  // and 661 us, with 4 rows 1,195 and 662, with 16 rows 1,177 and 669.
  static constexpr int group_rows = 8;

  __device__ void go() {
    const int group = index_ / (group_rows * across_), in_group = index_ % (group_rows * across_);
    const int rows = min(group_rows, down_ - group * group_rows);
    const int cluster_row = group * group_rows + in_group % rows;
    row = (cluster_row * Tile::cluster + static_cast<int>(blockIdx.x) % Tile::cluster) * Tile::rows;
    column = in_group / rows * step_;
  }

  int down_, across_, step_, index_;
};

// Loads this thread block's part of b's stage for both of its cluster.
template <Order order>
__device__ inline void load_b(uint32_t to, const CUtensorMap& b, const hopper::MatrixCorner& at,
                              const MatmulSizes& sizes, uint32_t full) {
  const int half = static_cast<int>(blockIdx.x) % Tile::cluster;
  if constexpr (order == Order::n_by_k) {
    constexpr int rows = Tile::columns / Tile::cluster;
    hopper::load_box_to_cluster(to + half * rows * Tile::row_bytes, b,
                                {at.row, at.column + sizes.place(half * rows)}, full);
  } else {
    constexpr int boxes = Tile::columns / Tile::box / Tile::cluster;
#pragma unroll
    for (int i = half * boxes; i < (half + 1) * boxes; ++i)
      hopper::load_box_to_cluster(to + i * Tile::b_box_bytes, b,
                                  {at.column + sizes.place(i * Tile::box), at.row}, full);
  }
}

// Loads the operands of all tiles. One thread.
template <Order order, class Team>
__device__ inline void load_operands(const CUtensorMap& a, const CUtensorMap& b,
                                     const MatmulSizes& sizes, uint32_t shared,
                                     Barriers<Team> barriers) {
  hopper::Ring<Tile::stages> ring;
  for (TileWalk walk(sizes); !walk.at_end(); walk.advance()) {
    for (int k = 0; k < sizes.k; k += Tile::depth, ring.advance()) {
      const uint32_t to = shared + ring.stage * Tile::stage_bytes;
      const uint32_t full = barriers.open(Channels<Team>::operands, ring, Tile::stage_bytes);
      hopper::load_box(to, a, hopper::MatrixCorner{k, walk.row}, full);
      load_b<order>(to + Tile::a_bytes, b, {walk.column, k}, sizes, full);
    }
  }
}

}  // namespace binade::backend::cuda::fused
