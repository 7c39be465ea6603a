#pragma once

#include "binade/backend/cuda/matmul/hopper_results.cuh"

// GELU and SwiGLU of tiles of a matmul's results.
namespace binade::backend::cuda::fused {

// Calls f(tile, group) with all groups of a warp's rows, tile after tile.
template <int count, class Team, class F>
__device__ inline void for_each_group_of_tiles(const ProcessingWarp<Team>& warp,
                                               const MatmulSizes& sizes, F f) {
  uint32_t phase = 0;
  for (TileWalk walk(sizes); !walk.at_end(); walk.advance(), phase ^= 1)
    for_each_group<count>(warp, phase, [&](const auto& group) { f(walk, group); });
}

// y = gelu(x), the tanh form, where x are the results.
template <class T>
struct GeluForward {
  T* y;
  int pitch;

  __device__ void finish(int64_t at, const uint4& pack) const {
    float v[8];
    widen<T>(pack, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= GeluGate(v[i]).value;
    store_streaming(y + at, narrow<T>(v));
  }
};

template <class T, class Team_>
class GeluProcessor {
 public:
  using Parameters = GeluForward<T>;
  using Team = Team_;
  static constexpr bool stores_results = true;

  __device__ GeluProcessor(const Parameters& gelu, const ProcessingWarp<Team>& warp)
      : gelu_(gelu), warp_(warp) {}

  __device__ void run(const MatmulSizes& sizes) const {
    for_each_group_of_tiles<at_once>(
        warp_, sizes, [&](const TileWalk& walk, const Group& group) { process(walk, group); });
  }

 private:
  static constexpr int at_once = 4;
  using Group = RowGroup<Team, at_once>;

  __device__ void process(const TileWalk& walk, const Group& group) const {
    uint4 packs[at_once];
    group.load_results(warp_.shared, packs);
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int64_t row = walk.row + group.row(i);
      if (group.exists(i)) gelu_.finish(row * gelu_.pitch + walk.column + lane() * 8, packs[i]);
    }
  }

  const Parameters& gelu_;
  ProcessingWarp<Team> warp_;
};

// y = silu(gate) * up, where the left half of a tile's results are gates and the right half is what
// they are multiplied with.
template <class T>
struct SwiGluForward {
  T* y;
  int pitch;

  __device__ void finish(int64_t at, const uint4& gates, const uint4& ups) const {
    constexpr float log2e = static_cast<float>(std::numbers::log2e);
    float gate[8], up[8];
    widen<T>(gates, gate);
    widen<T>(ups, up);
#pragma unroll
    for (int i = 0; i < 8; ++i) up[i] *= gate[i] * inverse_of_one_plus_exp2(-log2e * gate[i]);
    store_streaming(y + at, narrow<T>(up));
  }
};

// Half of a warp has a row, since a row of y has half of a tile's columns.
template <class T>
class SwiGluProcessor {
 public:
  using Parameters = SwiGluForward<T>;
  using Team = ThreeProcess;
  static constexpr bool stores_results = true;

  __device__ SwiGluProcessor(const Parameters& swiglu, const ProcessingWarp<Team>& warp)
      : swiglu_(swiglu), warp_(warp) {}

  __device__ void run(const MatmulSizes& sizes) const {
    for_each_group_of_tiles<2 * pairs>(
        warp_, sizes, [&](const TileWalk& walk, const Group& group) { process(walk, group); });
  }

 private:
  static constexpr int pairs = 4;  // of rows at once
  using Group = RowGroup<Team, 2 * pairs>;

  __device__ void process(const TileWalk& walk, const Group& group) const {
    const int upper = lane() / 16, part = lane() % 16;
    uint4 gates[pairs], ups[pairs];
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      gates[i] = group.load_result(warp_.shared, 2 * i + upper, part);
      ups[i] = group.load_result(warp_.shared, 2 * i + upper, part + 16);
    }
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      const int64_t row = walk.row + group.row(2 * i + upper);
      if (group.exists(2 * i + upper))
        swiglu_.finish(row * swiglu_.pitch + walk.column + part * 8, gates[i], ups[i]);
    }
  }

  const Parameters& swiglu_;
  ProcessingWarp<Team> warp_;
};

}  // namespace binade::backend::cuda::fused
