#pragma once

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
    const int64_t at = int64_t{walk.row + row} * pitch + walk.column + lane() * 8;
    const uint4 pack = load_result(shared, row);
    float v[8];
    widen<T>(pack, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= GeluGate(v[i]).value;
    store(x + at, pack);
    store(y + at, narrow<T>(v));
  }
};

template <class T>
class ForwardProcessor {
 public:
  using Parameters = GeluForward<T>;

  __device__ ForwardProcessor(const Parameters& gelu, const ProcessingWarp& warp)
      : gelu_(gelu), warp_(warp) {}

  __device__ void run(const MatmulSizes& sizes) const {
    uint32_t phase = 0;
    for (TileWalk walk(sizes); !walk.at_end(); walk.advance(), phase ^= 1) {
      for (int half = 0; half < 2; ++half) {
        hopper::wait(warp_.barriers.results_full(half), phase);
        const int first = half * Tile::half_rows;
#pragma unroll 4
        for (int row = warp_.index; row < Tile::half_rows; row += Tile::processing_warps)
          gelu_.finish(walk, warp_.shared, first + row);
        arrive_as_warp(warp_.barriers.results_empty(half));
      }
    }
  }

 private:
  const Parameters& gelu_;
  ProcessingWarp warp_;
};

}  // namespace binade::backend::cuda::fused
