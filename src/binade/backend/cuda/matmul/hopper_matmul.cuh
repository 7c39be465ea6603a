#pragma once

#include <algorithm>

#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/common/tensor_map.h"
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/matmul/hopper_multiplier.cuh"
#include "binade/backend/cuda/matmul/hopper_results.cuh"
#include "binade/base/error.h"
#include "binade/tensor/tensor.h"

// Launches matmuls whose tiles of results are processed in shared memory, for GPUs of compute
// capability 9.0.
namespace binade::backend::cuda::fused {

struct MatrixMaps {
  CUtensorMap a, b;
  CUtensorMap results;  // if the results are stored as they are
};

// Compilers refuse clusters for older GPUs, where this kernel is empty.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define BINADE_CLUSTER __cluster_dims__(Tile::cluster, 1, 1)
#else
#define BINADE_CLUSTER
#endif

// Process: what a processing warp of its Team does with the results, constructed from its
// Parameters. If it says so (stores_results), they are stored as well.
template <class T, Order order, class Process>
__global__ void __launch_bounds__(Process::Team::threads, 1) BINADE_CLUSTER
    fused_kernel(const __grid_constant__ MatrixMaps maps,
                 const __grid_constant__ typename Process::Parameters parameters,
                 const MatmulSizes sizes) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Team = typename Process::Team;
  constexpr int first_multiplying_warp = Team::processing_warps + 1;
  extern __shared__ __align__(1024) unsigned char memory[];
  const uint32_t shared = hopper::shared_address(memory);
  const Barriers<Team> barriers(shared + Tile::barriers_at);
  if (threadIdx.x == 0) barriers.init();
  hopper::synchronize_cluster();
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  if (warp >= first_multiplying_warp) {
    hopper::grow_registers<Team::multiplying_registers>();
    const int half = (warp - first_multiplying_warp) / 4;
    const CUtensorMap* results = Process::stores_results ? &maps.results : nullptr;
    Multiplier<T, order, Team>(half, shared, barriers, results).run(sizes);
  } else {
    hopper::shrink_registers<Team::processing_registers>();
    if (warp > 0) {
      Process(parameters, ProcessingWarp<Team>{warp - 1, shared, barriers}).run(sizes);
    } else if (threadIdx.x == 0) {
      load_operands<order, Team>(maps.a, maps.b, sizes, shared, barriers);
    }
  }
  __syncwarp();
  hopper::synchronize_cluster();  // neither thread block ends while the other one writes to it
#endif
}
#undef BINADE_CLUSTER

// Whether tiles of m x n results occupy the active device most of the time: of fewer, cuBLASLt's
// smaller ones are faster.
inline bool occupies_gpu(int64_t m, int64_t n) {
  const int64_t pairs = divide_up(m, Tile::rows * Tile::cluster) * divide_up(n, Tile::columns);
  const int64_t clusters = properties().multiprocessors / Tile::cluster;
  const int64_t capacity = divide_up(pairs, clusters) * clusters;
  return pairs <= INT32_MAX && 5 * pairs >= 4 * capacity;
}

// Whether m x n results, sums of k products, consist of whole tiles that occupy the active device.
inline bool has_whole_tiles(int64_t m, int64_t n, int64_t k) {
  return m % (Tile::rows * Tile::cluster) == 0 && n % Tile::columns == 0 && k % Tile::depth == 0 &&
         k >= Tile::least_depth && std::max({m, 2 * n, k}) <= INT32_MAX && occupies_gpu(m, n);
}

// Whether sums of k products take so long that three warps process a tile meanwhile. Measured on an
// H200 at 768 products, where seven are faster, and at 2048 and 4096, where three are.
inline bool has_long_sums(int64_t k) { return k >= 2048; }

// All present matrices have a's 16-bit type, are dense and start at multiples of 16 bytes.
inline bool is_uniform(const TensorView& a, std::initializer_list<const TensorView*> matrices) {
  if (a.dtype != DType::f16 && a.dtype != DType::bf16) return false;
  return std::all_of(matrices.begin(), matrices.end(), [&](const TensorView* x) {
    return !x->present || (x->dtype == a.dtype && x->is_dense() && packs_fit<bf16, 8>(x->data));
  });
}

// What a matmul may have beside its operands.
struct RunOptions {
  const void* bias = nullptr;
  TensorView results = {};            // receives the sums, if Process stores them
  int64_t apart = Tile::columns / 2;  // as in MatmulSizes
};

// Multiplies a [m, k] by b, which is [k, n] or [n, k] by `order`. The driver describes all matrices
// that are dense, start at multiples of 16 bytes and have so many columns.
template <class T, Order order, class Process>
void run(const TensorView& a, const TensorView& b, const typename Process::Parameters& parameters,
         const RunOptions& options = {}) {
  constexpr bool by_rows = order == Order::n_by_k;
  MatrixMaps maps;
  if (!encode_boxes(maps.a, a, Tile::rows) ||
      !encode_boxes(maps.b, b, by_rows ? Tile::columns / Tile::cluster : Tile::depth) ||
      (Process::stores_results && !encode_boxes(maps.results, options.results, Tile::half_rows)))
    fail("matmul", {.argument = "a, b",
                    .expected = "matrices that the driver can describe",
                    .found = to_string(a.shape) + " and " + to_string(b.shape)});
  const MatmulSizes sizes{static_cast<int>(a.shape[0]), static_cast<int>(b.shape[by_rows ? 0 : 1]),
                          static_cast<int>(a.shape[1]), options.bias,
                          static_cast<int>(options.apart)};
  const int blocks = properties().multiprocessors / Tile::cluster * Tile::cluster;
  launch(fused_kernel<T, order, Process>, static_cast<unsigned>(blocks), Process::Team::threads,
         Tile::shared_bytes, maps, parameters, sizes);
}

}  // namespace binade::backend::cuda::fused
