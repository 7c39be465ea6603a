#pragma once

#include "binade/backend/cuda/matmul/hopper_results.cuh"

// GELU of tiles of a matmul's results.
namespace binade::backend::cuda::fused {

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

template <class T>
class ForwardProcessor {
 public:
  using Parameters = GeluForward<T>;
  static constexpr bool stores_results = true;

  __device__ ForwardProcessor(const Parameters& gelu, const ProcessingWarp& warp)
      : gelu_(gelu), warp_(warp) {}

  __device__ void run(const MatmulSizes& sizes) const {
    uint32_t phase = 0;
    for (TileWalk walk(sizes); !walk.at_end(); walk.advance(), phase ^= 1)
      for_each_group<at_once>(warp_, phase, [&](const Group& group) { process(walk, group); });
  }

 private:
  static constexpr int at_once = 4;
  using Group = RowGroup<at_once>;

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
  ProcessingWarp warp_;
};

}  // namespace binade::backend::cuda::fused
