#pragma once

#include <numbers>

#include "binade/backend/cuda/common/fast_math.cuh"
#include "binade/backend/cuda/matmul/hopper_tile.cuh"

// Tiles of results in shared memory, as processing warps read them: a lane has eight columns.
namespace binade::backend::cuda::fused {

// ---- Eight elements of 16 bits

template <class T>
__device__ inline void widen(const uint4& pack, float (&x)[8]) {
  const uint32_t pairs[] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = hopper::widen_pair<T>(pairs[i]);
    x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
  }
}

template <class T>
__device__ inline uint4 narrow(const float (&x)[8]) {
  return {hopper::narrow_pair<T>(x[0], x[1]), hopper::narrow_pair<T>(x[2], x[3]),
          hopper::narrow_pair<T>(x[4], x[5]), hopper::narrow_pair<T>(x[6], x[7])};
}

template <class T>
__device__ inline uint4 load(const T* from) {
  return *reinterpret_cast<const uint4*>(from);
}
template <class T>
__device__ inline void store(T* to, const uint4& pack) {
  *reinterpret_cast<uint4*>(to) = pack;
}
// For what is read much later, if at all: it need not stay in the cache.
template <class T>
__device__ inline void store_streaming(T* to, const uint4& pack) {
  __stcs(reinterpret_cast<uint4*>(to), pack);
}
__device__ inline uint4 load_shared(uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}

// ---- Functions, with relative errors of about 2^-20, which vanish when results are rounded

// 1 / (1 + 2^x)
__device__ inline float inverse_of_one_plus_exp2(float x) {
  float y = fast_exp2(x) + 1;
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(y));
  return y;
}

// The smaller one, or NaN.
__device__ inline float min_or_nan(float x, float y) {
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  return x;
}

// GELU in its tanh form is x times this gate.
struct GeluGate {
  static constexpr float log2e = static_cast<float>(std::numbers::log2e);
  static constexpr float linear =
      static_cast<float>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  static constexpr float cubic = 0.044715f * linear;

  float square, value;

  // Past 20 the gate is 0 or 1; bounding the square keeps it finite.
  __device__ explicit GeluGate(float x)
      : square(min_or_nan(x * x, 400.0f)),
        value(inverse_of_one_plus_exp2(x * fmaf(-cubic * log2e, square, -linear * log2e))) {}

  // The derivative of GELU.
  __device__ float slope(float x) const {
    return fmaf(fmaf(-value, value, value) * x, fmaf(3 * cubic, square, linear), value);
  }
};

// ---- Warps

using hopper::lane;

// One of the warps that process tiles: it has every seventh row, if there are seven.
template <class Team>
struct ProcessingWarp {
  int index;
  uint32_t shared;
  Barriers<Team> barriers;
};

// The halves of a tile's results, as a warp comes to their rows from the first to the last.
template <class Team>
class ResultHalves {
 public:
  __device__ ResultHalves(Barriers<Team> barriers, uint32_t phase)
      : barriers_(barriers), phase_(phase) {
    hopper::wait(barriers_.full(Names::results, 0), phase_);
  }

  // Before reading rows up to this one.
  __device__ void before(int last_row) {
    if (!lower_ready_ && last_row >= Tile::half_rows) {
      hopper::wait(barriers_.full(Names::results, 1), phase_);
      lower_ready_ = true;
    }
  }
  // After reading all rows of this warp before this one.
  __device__ void after(int next_row) {
    if (!upper_done_ && next_row >= Tile::half_rows) {
      hopper::arrive_warp(barriers_.empty(Names::results, 0));
      upper_done_ = true;
    }
  }
  __device__ void end() { hopper::arrive_warp(barriers_.empty(Names::results, 1)); }

 private:
  using Names = Channels<Team>;

  Barriers<Team> barriers_;
  uint32_t phase_;
  bool lower_ready_ = false, upper_done_ = false;
};

// Rows of a tile that a warp processes together, from `top` on: the more, the more instructions do
// not wait for each other.
template <class Team, int count>
struct RowGroup {
  int top;

  __device__ int row(int i) const { return top + i * Team::processing_warps; }
  __device__ bool exists(int i) const { return row(i) < Tile::rows; }

  // Eight elements of a row from column 8 * part on, of the tile's last row past its end.
  __device__ uint4 load_result(uint32_t shared, int i, int part) const {
    const int at = min(row(i), Tile::rows - 1);
    return load_shared(shared + Tile::results_at + part / 8 * Tile::result_box_bytes +
                       at * Tile::row_bytes + (part % 8 ^ at % 8) * 16);
  }
  // This lane's elements of each row. All rows are loaded before the first is used, since the
  // compiler does not move loads past stores.
  __device__ void load_results(uint32_t shared, uint4 (&packs)[count]) const {
#pragma unroll
    for (int i = 0; i < count; ++i) packs[i] = load_result(shared, i, lane());
  }
};

// Calls f with each group of the warp's rows, in their order, once their results are there.
template <int count, class Team, class F>
__device__ inline void for_each_group(const ProcessingWarp<Team>& warp, uint32_t phase, F f) {
  ResultHalves<Team> halves(warp.barriers, phase);
#pragma unroll 1
  for (RowGroup<Team, count> group{warp.index}; group.exists(0); group.top = group.row(count)) {
    halves.before(group.row(count - 1));
    f(group);
    halves.after(group.row(count));
  }
  halves.end();
}

}  // namespace binade::backend::cuda::fused
