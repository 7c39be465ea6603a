#pragma once

#include <numbers>

#include "binade/backend/cuda/matmul/hopper_results.cuh"

// GELU of tiles of a matmul's results.
namespace binade::backend::cuda::fused {

// y = gelu(x), the tanh form, where x are the results; both are stored.
template <class T>
struct GeluForward {
  T *x, *y;
  int pitch;

  // `row` within the tile.
  __device__ void finish(const TileWalk& walk, uint32_t shared, int row) const {
    constexpr float log2e = static_cast<float>(std::numbers::log2e);
    constexpr float linear = static_cast<float>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    constexpr float cubic = 0.044715f * linear;
    const int64_t at = int64_t{walk.row + row} * pitch + walk.column + lane() * 8;
    const uint4 pack = load_result(shared, row);
    float v[8];
    widen<T>(pack, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      // Past 20 the gate is 0 or 1; bounding the square keeps it finite.
      const float square = min_or_nan(v[i] * v[i], 400.0f);
      v[i] *= inverse_of_one_plus_exp2(v[i] * fmaf(-cubic * log2e, square, -linear * log2e));
    }
    store(x + at, pack);
    store(y + at, narrow<T>(v));
  }
};

// Processes every seventh row of the tiles.
template <class T>
class ForwardProcessor {
 public:
  using Parameters = GeluForward<T>;

  __device__ ForwardProcessor(const Parameters& gelu, int warp, uint32_t shared, Barriers barriers)
      : gelu_(gelu), warp_(warp), shared_(shared), barriers_(barriers) {}

  __device__ void run(const MatmulSizes& sizes) const {
    uint32_t phase = 0;
    for (TileWalk walk(sizes); !walk.at_end(); walk.advance(), phase ^= 1) {
      for (int half = 0; half < 2; ++half) {
        hopper::wait(barriers_.results_full(half), phase);
        const int first = half * Tile::half_rows;
#pragma unroll 4
        for (int row = warp_; row < Tile::half_rows; row += Tile::processing_warps)
          gelu_.finish(walk, shared_, first + row);
        arrive_as_warp(barriers_.results_empty(half));
      }
    }
  }

 private:
  const Parameters& gelu_;
  int warp_;
  uint32_t shared_;
  Barriers barriers_;
};

}  // namespace binade::backend::cuda::fused
