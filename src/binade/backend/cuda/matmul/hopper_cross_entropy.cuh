#pragma once

#include <limits>
#include <numbers>

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/matmul/hopper_results.cuh"
#include "binade/backend/cuda/step/targets.cuh"

// Exponentials of tiles of logits, relative to each row's label.
namespace binade::backend::cuda::fused {

// e^x for the difference x of two logits, with a relative error of about 2^-22.
__device__ inline float exp_of_difference(float x) {
  return fast_exp2(x * static_cast<float>(std::numbers::log2e));
}

struct RelativeExponentials {
  bf16* y;  // [rows, pitch]: e^(logit - reference), and 0 past the classes
  int rows, classes, pitch;
  // Of each row: a number close to the label's logit, or infinity if all of its exponentials are to
  // be 0.
  const float* references;
  Targets targets;
  float* label_logits;  // [rows]; left as they are if the label is not a class
  float* sums;          // [rows, tiles]: of the row's exponentials in each column of tiles
  int tiles;
};

class ExponentialProcessor {
 public:
  using Parameters = RelativeExponentials;

  __device__ ExponentialProcessor(const Parameters& p, const ProcessingWarp& warp)
      : p_(p), warp_(warp) {}

  __device__ void run(const MatmulSizes& sizes) {
    uint32_t phase = 0;
    for (TileWalk walk(sizes); !walk.at_end(); walk.advance(), phase ^= 1) process(walk, phase);
  }

 private:
  static constexpr int warps = Tile::processing_warps;
  // Rows whose sums a warp forms together: each waits for five exchanges between lanes.
  static constexpr int at_once = 4;
  static constexpr int steps = ceil_div(Tile::rows, warps);
  static_assert(steps <= 2 * warp_size);
  static constexpr uint32_t all_lanes = 0xffffffff;

  // Of this lane's row among the warp's first or last 32.
  struct Facts {
    float reference;
    int label;
  };

  // The warp's rows of a tile in their order.
  __device__ int row_at(int step) const { return warp_.index + step * warps; }

  __device__ Facts facts_of(int tile_row, int part) const {
    const int row = row_at(lane() + part * warp_size), at = tile_row + row;
    if (row >= Tile::rows || at >= p_.rows) return {0, -1};
    return {p_.references[at], static_cast<int>(p_.targets[at])};
  }

  __device__ void process(const TileWalk& walk, uint32_t phase) const {
    const Facts facts[] = {facts_of(walk.row, 0), facts_of(walk.row, 1)};
    ResultHalves halves(warp_.barriers, phase);
#pragma unroll 1
    for (int step = 0; row_at(step) < Tile::rows; step += at_once) {
      halves.before(row_at(step + at_once - 1));
      process_rows(walk, facts, step);
      halves.after(row_at(step + at_once));
    }
    halves.end();
  }

  __device__ void process_rows(const TileWalk& walk, const Facts (&facts)[2], int first) const {
    float sums[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int step = first + i, row = row_at(step);
      const bool first_part = step < warp_size;
      const float reference = first_part ? facts[0].reference : facts[1].reference;
      const int label = first_part ? facts[0].label : facts[1].label;
      const Facts of_row{__shfl_sync(all_lanes, reference, step % warp_size),
                         __shfl_sync(all_lanes, label, step % warp_size)};
      const bool inside = row < Tile::rows && walk.row + row < p_.rows;
      sums[i] = inside ? process_row(walk, row, of_row) : 0;
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const float sum = reduce_warp(sums[i], Sum());
      const int row = row_at(first + i);
      if (lane() == i && row < Tile::rows && walk.row + row < p_.rows)
        p_.sums[int64_t{walk.row + row} * p_.tiles + walk.column / Tile::columns] = sum;
    }
  }

  // Returns the sum of this lane's exponentials.
  __device__ float process_row(const TileWalk& walk, int row, const Facts& of_row) const {
    const int column = walk.column + lane() * 8, at = walk.row + row;
    float x[8];
    widen<bf16>(load_result(warp_.shared, row), x);
    const bool is_zero = of_row.reference == std::numeric_limits<float>::infinity();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (column + i == of_row.label && of_row.label < p_.classes) p_.label_logits[at] = x[i];
      x[i] = is_zero || column + i >= p_.classes ? 0 : exp_of_difference(x[i] - of_row.reference);
    }
    if (column < p_.pitch) store(p_.y + int64_t{at} * p_.pitch + column, narrow<bf16>(x));
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
  }

  const Parameters& p_;
  ProcessingWarp warp_;
};

}  // namespace binade::backend::cuda::fused
