#pragma once

#include <numbers>

#include "binade/backend/cuda/matmul/hopper_results.cuh"

// The backward of activations on tiles of their gradient that lie in shared memory.
namespace binade::backend::cuda::fused {

// ---- Epilogues. `at` is the index of eight elements in a matrix of `pitch` columns.

// dx = dy gelu'(x) with the tanh form of GELU; y = gelu(x), if it is not null. dx may be x.
template <class T>
struct GeluBackward {
  using Loaded = uint4;
  // Rows that a warp loads ahead: enough to cover the latency of memory.
  static constexpr int rows_ahead = 4;

  const T* x;
  T *dx, *y;
  float* sums;  // [m / Tile::rows, n]: of the columns of dx in each row of tiles; or null
  int pitch;

  __device__ Loaded fetch(int64_t at) const { return load(x + at); }

  __device__ void finish(int64_t at, int, const uint4& dy, const Loaded& loaded,
                         float (&sum)[8]) const {
    float d[8], v[8];
    widen<T>(dy, d);
    widen<T>(loaded, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const GeluGate gate(v[i]);
      d[i] *= gate.slope(v[i]);
      sum[i] += d[i];
      v[i] *= gate.value;
    }
    store(dx + at, narrow<T>(d));
    if (y != nullptr) store(y + at, narrow<T>(v));
  }
};

// A row of x and dx is gate, then up; y = silu(gate) up, if it is not null. dx may be x.
template <class T>
struct SwiGluBackwardTile {
  struct Loaded {
    uint4 gate, up;
  };
  static constexpr int rows_ahead = 2;

  const T* x;
  T *dx, *y;
  float* sums;  // null
  int pitch;    // of x and dx

  __device__ Loaded fetch(int64_t at) const { return {load(x + at), load(x + at + pitch / 2)}; }

  __device__ void finish(int64_t at, int column, const uint4& dy, const Loaded& loaded,
                         float (&)[8]) const {
    constexpr float log2e = static_cast<float>(std::numbers::log2e);
    float d[8], gate[8], up[8];
    widen<T>(dy, d);
    widen<T>(loaded.gate, gate);
    widen<T>(loaded.up, up);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float sigmoid = inverse_of_one_plus_exp2(-log2e * gate[i]), silu = gate[i] * sigmoid;
      gate[i] = d[i] * up[i] * fmaf(silu, 1 - sigmoid, sigmoid);
      const float value = silu * up[i];
      up[i] = d[i] * silu;
      d[i] = value;
    }
    store(dx + at, narrow<T>(gate));
    store(dx + at + pitch / 2, narrow<T>(up));
    if (y != nullptr) store(y + (at + column) / 2, narrow<T>(d));
  }
};

// ---- Processing

template <class E, class Team_>
class Processor {
 public:
  using Parameters = E;
  using Team = Team_;
  static constexpr bool stores_results = false;

  __device__ Processor(const E& e, const ProcessingWarp<Team>& warp) : e_(e), warp_(warp) {}

  __device__ void run(const MatmulSizes& sizes) {
    TileWalk walk(sizes);
    int64_t at = first(walk);
    if (!walk.at_end()) {
#pragma unroll
      for (int i = 0; i < E::rows_ahead; ++i) loaded_[i] = e_.fetch(at + i * step());
    }
    for (uint32_t phase = 0; !walk.at_end(); phase ^= 1) {
      const int row = walk.row, column = walk.column;
      walk.advance();
      const int64_t next = first(walk);
      float sum[8] = {};
      process(at, next, column + lane() * 8, phase, sum);
      if (e_.sums != nullptr) add_sums(sum, row / Tile::rows, column, sizes.n);
      at = next;
    }
  }

 private:
  static constexpr int warps = Team::processing_warps, ahead = E::rows_ahead;

  // To this warp's next row.
  __device__ int64_t step() const { return int64_t{warps} * e_.pitch; }
  // This warp's first row of a tile.
  __device__ int64_t first(const TileWalk& walk) const {
    return int64_t{walk.row + warp_.index} * e_.pitch + walk.column + lane() * 8;
  }

  // The warp's rows of the tile at `at`. Loads its first rows of the tile at `next_tile`.
  __device__ void process(int64_t at, int64_t next_tile, int column, uint32_t phase,
                          float (&sum)[8]) {
    for_each_group<ahead>(warp_, phase, [&](const RowGroup<Team, ahead>& group) {
      const bool last = group.row(ahead) >= Tile::rows;
      const int64_t next = last ? next_tile : at + ahead * step();
      uint4 dy[ahead];
      typename E::Loaded current[ahead];
      group.load_results(warp_.shared, dy);
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        current[i] = loaded_[i];
        if (last || group.row(ahead + i) < Tile::rows) loaded_[i] = e_.fetch(next + i * step());
      }
#pragma unroll
      for (int i = 0; i < ahead; ++i)
        if (group.exists(i)) e_.finish(at + i * step(), column, dy[i], current[i], sum);
      at = next;
    });
  }

  // Adds the warps' sums of a tile in their order.
  __device__ void add_sums(const float (&sum)[8], int tile_row, int column, int n) const {
    const uint32_t sums = warp_.shared + Tile::sums_at;
    synchronize();  // the sums of the tile before are read
#pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(
                       sums + 4 * (warp_.index * Tile::columns + lane() * 8 + i)),
                   "f"(sum[i])
                   : "memory");
    synchronize();
    for (int i = warp_.index * 32 + lane(); i < Tile::columns; i += warps * 32) {
      float total = 0;
#pragma unroll
      for (int warp = 0; warp < warps; ++warp) {
        float x;
        asm volatile("ld.shared.f32 %0, [%1];"
                     : "=f"(x)
                     : "r"(sums + 4 * (warp * Tile::columns + i))
                     : "memory");
        total += x;
      }
      e_.sums[int64_t{tile_row} * n + column + i] = total;
    }
  }

  // The processing warps.
  __device__ static void synchronize() {
    hopper::synchronize<HardwareBarrier::processing_warps, warps * warp_size>();
  }

  const E& e_;
  ProcessingWarp<Team> warp_;
  typename E::Loaded loaded_[ahead];
};

}  // namespace binade::backend::cuda::fused
