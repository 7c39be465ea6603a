#pragma once

#include "binade/backend/cuda/matmul/hopper_tile.cuh"

// The multiplying warpgroups of Hopper's matmuls.
namespace binade::backend::cuda::fused {

// The rows of a tile that a warpgroup multiplies: its upper or its lower half. A thread has 128
// results, which the Team's matmuls compute at once or in two halves of the columns, its sides.
template <class T, Order order, class Team>
class Multiplier {
 public:
  // `results`: where results go as they are, or null.
  __device__ Multiplier(int half, uint32_t shared, Barriers<Team> barriers,
                        const CUtensorMap* results)
      : half_(half), shared_(shared), barriers_(barriers), results_(results) {}

  __device__ void run(const MatmulSizes& sizes) {
    using namespace hopper;
    uint32_t phase = 1;
    for (TileWalk walk(sizes); !walk.at_end(); walk.advance(), phase ^= 1) {
      Side d[sides];
      multiply(d, sizes.k / Tile::depth);
      if constexpr (sides == 1) release();
      wait(barriers_.empty(Names::results, half_), phase);
      if (results_ != nullptr) wait_until_stored();
      store<0>(d[0], sizes, walk.column);
      if constexpr (sides == 2) {
        // The matmuls of the right half were still at work.
        wait_matmuls<0>();
        hold(d[1]);
        release();
        store<1>(d[1], sizes, walk.column);
      }
      if (results_ != nullptr)
        start_storing({walk.column, walk.row + half_ * Tile::half_rows}, sizes);
      arrive_warp(barriers_.full(Names::results, half_));
    }
    if (results_ != nullptr) wait_until_stored();
  }

 private:
  static constexpr int sides = Team::sides, side_columns = Tile::columns / sides;
  using Side = float[side_columns / 2];
  using Names = Channels<Team>;

  // Two or more steps. At its end the first side is complete; if there is a second, its last
  // matmuls are at work.
  __device__ void multiply(Side (&d)[sides], int steps) {
    using namespace hopper;
    start_step<false>(d);
    ring_.advance();
#pragma unroll 1
    for (int step = 2; step < steps; ++step) {
      start_step<true>(d);
      wait_matmuls<sides>();
      release();
      ring_.advance();
    }
    start_step<true>(d);
    wait_matmuls<sides - 1>();
    hold(d[0]);
    release();
    ring_.advance();
  }

  // Of a stage: a group of matmuls for each side.
  template <bool add>
  __device__ void start_step(Side (&d)[sides]) {
    barriers_.wait_full(Names::operands, ring_);
    hopper::fence_matmuls();
#pragma unroll
    for (int side = 0; side < sides; ++side) start_side<add>(d[side], side);
  }

  template <bool add>
  __device__ void start_side(Side& d, int side) {
    using namespace hopper;
    // 16 deep in a and b.
    constexpr int a_bytes = 16 * 2,
                  b_bytes = order == Order::n_by_k ? 16 * 2 : 16 * Tile::row_bytes;
    constexpr uint32_t b_tile_bytes = order == Order::n_by_k ? 1024 : Tile::b_box_bytes;
    constexpr int side_bytes = side_columns * Tile::depth * 2;
    constexpr int transposed = order == Order::k_by_n ? 1 : 0;
    const uint32_t stage = shared_ + ring_.stage * Tile::stage_bytes;
    const uint64_t a = operand_at(operand(), stage + half_ * Tile::half_rows * Tile::row_bytes);
    const uint64_t b = operand_at(operand(b_tile_bytes), stage + Tile::a_bytes + side * side_bytes);
#pragma unroll
    for (int i = 0; i < Tile::depth / 16; ++i)
      hopper::matmul<T, 0, transposed>(d, a + i * (a_bytes / 16), b + i * (b_bytes / 16),
                                       add || i > 0);
    commit_matmuls();
  }

  // This warp has read the stage before, which both thread blocks load into.
  __device__ void release() const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < Tile::cluster)
      hopper::arrive_at(barriers_.empty(Names::operands, ring_.stage_before()), lane);
  }

  // Adds the bias and rounds to T. 16-byte pieces are swizzled by the row's last three bits.
  template <int side>
  __device__ void store(Side& d, const MatmulSizes& sizes, int column) const {
    if (sizes.bias != nullptr) add<side>(d, sizes, column);
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
              lane = static_cast<int>(threadIdx.x) % 32;
    const int row = half_ * Tile::half_rows + warp * 16 + lane % 16;
    const uint32_t to = shared_ + Tile::results_at + row * Tile::row_bytes +
                        (lane / 16 ^ lane % 8) * 16 +
                        side * (side_columns / Tile::box) * Tile::result_box_bytes;
#pragma unroll
    for (int i = 0; i < side_columns / 2; i += 8) {  // 16 columns
      const uint32_t x[4] = {
          hopper::narrow_pair<T>(d[i], d[i + 1]), hopper::narrow_pair<T>(d[i + 2], d[i + 3]),
          hopper::narrow_pair<T>(d[i + 4], d[i + 5]), hopper::narrow_pair<T>(d[i + 6], d[i + 7])};
      hopper::store_matrices(
          (to ^ i * 2 % Tile::box * 2) + i * 2 / Tile::box * Tile::result_box_bytes, x);
    }
  }

  // Adds the bias.
  template <int side>
  __device__ void add(Side& d, const MatmulSizes& sizes, int column) const {
    const T* bias = static_cast<const T*>(sizes.bias) + column + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < side_columns / 2; i += 4) {
      const int at = sizes.place(side * side_columns + i / 4 * 8);
      const float2 x = hopper::widen_pair<T>(*reinterpret_cast<const uint32_t*>(bias + at));
      d[i] += x.x, d[i + 1] += x.y, d[i + 2] += x.x, d[i + 3] += x.y;
    }
  }

  // The warpgroup's results from shared memory to where they go, by one thread, in the background.
  __device__ void start_storing(const hopper::MatrixCorner& at, const MatmulSizes& sizes) const {
    hopper::fence_async_shared();
    synchronize();
    if (threadIdx.x % group_threads != 0) return;
#pragma unroll
    for (int box = 0; box < Tile::columns / Tile::box; ++box)
      hopper::store_box(*results_, {at.column + sizes.place(box * Tile::box), at.row},
                        shared_ + Tile::results_at + box * Tile::result_box_bytes +
                            half_ * Tile::half_rows * Tile::row_bytes);
    hopper::commit_stores();
  }
  __device__ void wait_until_stored() const {
    if (threadIdx.x % group_threads == 0) hopper::wait_for_stores();
    synchronize();
  }

  static constexpr int group_threads = 128;

  // The warpgroup.
  __device__ void synchronize() const {
    if (half_ == 0)
      hopper::synchronize<HardwareBarrier::upper_multiplier, group_threads>();
    else
      hopper::synchronize<HardwareBarrier::lower_multiplier, group_threads>();
  }

  int half_;
  uint32_t shared_;
  Barriers<Team> barriers_;
  const CUtensorMap* results_;
  hopper::Ring<Tile::stages> ring_;
};

}  // namespace binade::backend::cuda::fused
