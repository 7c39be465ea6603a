#pragma once

#include <limits>
#include <numbers>

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
  using Team = SevenProcess;
  static constexpr bool stores_results = false;

  __device__ ExponentialProcessor(const Parameters& p, const ProcessingWarp<Team>& warp)
      : p_(p), warp_(warp) {}

  __device__ void run(const MatmulSizes& sizes) {
    uint32_t phase = 0;
    for (TileWalk walk(sizes); !walk.at_end(); walk.advance(), phase ^= 1) process(walk, phase);
  }

 private:
  static constexpr int at_once = 4;
  using Group = RowGroup<Team, at_once>;
  static constexpr int warps = Team::processing_warps;
  static constexpr uint32_t all_lanes = 0xffffffff;
  static_assert(ceil_div(Tile::rows, warps) <= warp_size && warp_size % at_once == 0);

  // Of the warp's row of this lane's number.
  struct Facts {
    float reference;
    int label;
    // Bit i: row i of the warp has its label in the tile or is to be 0, or the matrix ends there.
    uint32_t special;
  };

  __device__ Facts facts_of(const TileWalk& walk) const {
    const int row = warp_.index + lane() * warps, at = walk.row + row;
    Facts facts{0, -1, 0};
    if (row < Tile::rows && at < p_.rows)
      facts = {p_.references[at], static_cast<int>(p_.targets[at]), 0};
    const bool has_label = facts.label >= walk.column && facts.label < walk.column + Tile::columns;
    facts.special = __ballot_sync(
        all_lanes, row < Tile::rows && (at >= p_.rows || has_label || is_zero(facts.reference) ||
                                        walk.column + Tile::columns > p_.classes));
    return facts;
  }

  // Whether all exponentials of a row are to be 0.
  __device__ static bool is_zero(float reference) {
    return reference == std::numeric_limits<float>::infinity();
  }

  __device__ void process(const TileWalk& walk, uint32_t phase) const {
    const Facts facts = facts_of(walk);
    for_each_group<at_once>(warp_, phase, [&](const Group& group) {
      constexpr uint32_t rows = (1u << at_once) - 1;
      const bool special = (facts.special >> group.top / warps & rows) != 0;
      special ? process_group<true>(walk, facts, group) : process_group<false>(walk, facts, group);
    });
  }

  template <bool special>
  __device__ void process_group(const TileWalk& walk, const Facts& facts,
                                const Group& group) const {
    uint4 packs[at_once];
    float sums[at_once];
    group.load_results(warp_.shared, packs);
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int source = group.top / warps + i;
      const float reference = __shfl_sync(all_lanes, facts.reference, source);
      float x[8];
      widen<bf16>(packs[i], x);
      if constexpr (special)
        keep_label(walk, group.row(i), __shfl_sync(all_lanes, facts.label, source), x);
#pragma unroll
      for (int j = 0; j < 8; ++j) x[j] = exp_of_difference(x[j] - reference);
      if constexpr (special) zero_missing(walk, is_zero(reference), x);
      if (is_inside<special>(walk, group.row(i))) store_row(walk, group.row(i), x);
      sums[i] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    }
    const float sum = sum_rows(sums);
    const int row = group.row(lane() / 8);
    if (lane() % 8 == 0 && is_inside<special>(walk, row))
      p_.sums[int64_t{walk.row + row} * p_.tiles + walk.column / Tile::columns] = sum;
  }

  // Rows of groups that are not special lie in the matrix if they lie in the tile.
  template <bool special>
  __device__ bool is_inside(const TileWalk& walk, int row) const {
    return row < Tile::rows && (!special || walk.row + row < p_.rows);
  }

  __device__ void keep_label(const TileWalk& walk, int row, int label,
                             const float (&logits)[8]) const {
    const int column = walk.column + lane() * 8;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (column + i == label && label < p_.classes && is_inside<true>(walk, row))
        p_.label_logits[walk.row + row] = logits[i];
  }

  // All of the row, or what lies past the classes.
  __device__ void zero_missing(const TileWalk& walk, bool all, float (&x)[8]) const {
    const int column = walk.column + lane() * 8;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (all || column + i >= p_.classes) x[i] = 0;
  }

  __device__ void store_row(const TileWalk& walk, int row, const float (&x)[8]) const {
    const int column = walk.column + lane() * 8;
    if (column < p_.pitch)
      store(p_.y + int64_t{walk.row + row} * p_.pitch + column, narrow<bf16>(x));
  }

  // The sum of row i over the lanes, in lanes 8 i to 8 i + 7. The additions are those of a row by
  // itself, but every exchange is of two rows: lanes send one and keep the other.
  __device__ static float sum_rows(const float (&x)[at_once]) {
    static_assert(at_once == 4);
    const bool lower_rows = (lane() & 16) != 0, odd_rows = (lane() & 8) != 0;
    const float even =
        (lower_rows ? x[2] : x[0]) + __shfl_xor_sync(all_lanes, lower_rows ? x[0] : x[2], 16);
    const float odd =
        (lower_rows ? x[3] : x[1]) + __shfl_xor_sync(all_lanes, lower_rows ? x[1] : x[3], 16);
    float sum = (odd_rows ? odd : even) + __shfl_xor_sync(all_lanes, odd_rows ? even : odd, 8);
#pragma unroll
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(all_lanes, sum, step);
    return sum;
  }

  const Parameters& p_;
  ProcessingWarp<Team> warp_;
};

}  // namespace binade::backend::cuda::fused
