#pragma once

#include <algorithm>
#include <initializer_list>

#include "binade/backend/cuda/attention/common.cuh"
#include "binade/backend/cuda/attention/row_spans.cuh"
#include "binade/backend/cuda/common/hopper_pipeline.cuh"

// What Hopper's attention kernels share: the warps of a thread block, and the jobs that one of its
// threads takes for all of them.
namespace binade::backend::cuda::native {

// Three warpgroups: the first loads, the others compute. The compiler gives each of their threads
// 168 registers; the loading warpgroup leaves most of its own to those that compute.
template <int LoaderRegisters>
struct AttentionWarps {
  static constexpr int threads = 384, warps = 8;  // warps that compute
  static constexpr int loader_registers = LoaderRegisters;
  static constexpr int registers = (3 * 168 - loader_registers) / 2;
  static constexpr int row_bytes = 128;  // of a tile of 64 columns
};

// Initializes barriers, then runs `load` in the first warpgroup and `compute` in the others.
template <class Tile, class Barriers, class Load, class Compute>
__device__ inline void run_warpgroups(const Barriers& barriers, Load&& load, Compute&& compute) {
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  if (threadIdx.x < 128) {
    hopper::shrink_registers<Tile::loader_registers>();
    load();
  } else {
    hopper::grow_registers<Tile::registers>();
    compute();
  }
}

// Jobs pass through the channel `jobs` of a Layout: two stages in shared memory from `jobs` on,
// Job::bytes each. The thread that takes them posts them:
template <class Job, class Layout>
__device__ inline void post_job(const Job& job, uint32_t jobs,
                                const hopper::Barriers<Layout>& barriers,
                                const hopper::Ring<2>& at) {
  barriers.wait_empty(Layout::jobs, at);
  job.store(jobs + Job::bytes * at.stage);
  hopper::arrive(barriers.full(Layout::jobs, at.stage));
}
// Its readers say that they are done by arrive(barrier).
template <class Job, class Layout, class F>
__device__ inline void read_job(Job& job, uint32_t jobs, const hopper::Barriers<Layout>& barriers,
                                const hopper::Ring<2>& at, F&& arrive) {
  barriers.wait_full(Layout::jobs, at);
  job.load(jobs + Job::bytes * at.stage);
  arrive(barriers.empty(Layout::jobs, at.stage));
}

// What an error says of tensors that supports() should have refused.
inline constexpr const char* refused_tensors = "tensors that the driver cannot describe";

// Whether kernels for heads of 64 or 128 elements can read or write all of these.
inline bool are_packed_heads(DType dtype, std::initializer_list<const TensorView*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const TensorView* x) {
    return x->dtype == dtype && Heads<bf16>(*x).packed;
  });
}

}  // namespace binade::backend::cuda::native
