#include "binade/backend/cuda/matmul/fused_backward.h"

#include <algorithm>

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/common/tensor_map.h"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/matmul/hopper_epilogue.cuh"

namespace binade::backend::cuda {
namespace {

using fused::MatmulSizes;
using fused::Tile;

struct OperandMaps {
  CUtensorMap a, b;
};

// Compilers refuse clusters for older GPUs, where this kernel is empty.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define BINADE_CLUSTER __cluster_dims__(Tile::cluster, 1, 1)
#else
#define BINADE_CLUSTER
#endif

template <class T, class E>
__global__ void __launch_bounds__(Tile::threads, 1) BINADE_CLUSTER
    fused_kernel(const __grid_constant__ OperandMaps maps, const __grid_constant__ E epilogue,
                 const MatmulSizes sizes) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  const uint32_t shared = hopper::shared_address(memory);
  const fused::Barriers barriers{shared + Tile::barriers_at};
  if (threadIdx.x == 0) barriers.init();
  fused::synchronize_cluster();
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  if (warp >= 4) {
    fused::Multiplier<T>(warp / 4 - 1, shared, barriers).run(sizes);
  } else if (warp > 0) {
    fused::Processor<E>(epilogue, warp - 1, shared, barriers).run(sizes);
  } else if (threadIdx.x == 0) {
    fused::load_operands(maps.a, maps.b, sizes, shared, barriers);
  }
  __syncwarp();
  fused::synchronize_cluster();  // neither thread block ends while the other one writes to it
#endif
}
#undef BINADE_CLUSTER

// Whether a b consists of whole tiles that occupy the GPU most of the time: of fewer, cuBLASLt's
// smaller ones are faster.
bool has_whole_tiles(const TensorView& a, const TensorView& b) {
  const int64_t m = a.shape[0], n = b.shape[1], k = a.shape[1];
  if (m % (Tile::rows * Tile::cluster) != 0 || n % Tile::columns != 0 || k % Tile::depth != 0 ||
      k == 0 || std::max({m, 2 * n, k}) > INT32_MAX)
    return false;
  const int64_t pairs = m / (Tile::rows * Tile::cluster) * (n / Tile::columns);
  const int64_t clusters = properties().multiprocessors / Tile::cluster;
  const int64_t capacity = divide_up(pairs, clusters) * clusters;
  return pairs <= INT32_MAX && 5 * pairs >= 4 * capacity;
}

// All present matrices have a's 16-bit type, are dense and start at multiples of 16 bytes.
bool is_uniform(const TensorView& a, std::initializer_list<const TensorView*> matrices) {
  if (a.dtype != DType::f16 && a.dtype != DType::bf16) return false;
  return std::all_of(matrices.begin(), matrices.end(), [&](const TensorView* x) {
    return x->dtype == a.dtype && x->is_dense() && packs_fit<bf16, 8>(x->data);
  });
}

template <class T, class E>
bool run(const TensorView& a, const TensorView& b, const E& epilogue) {
  OperandMaps maps;
  if (!encode_boxes(maps.a, a, Tile::rows) || !encode_boxes(maps.b, b, Tile::depth)) return false;
  const MatmulSizes sizes{static_cast<int>(a.shape[0]), static_cast<int>(b.shape[1]),
                          static_cast<int>(a.shape[1])};
  const int blocks = properties().multiprocessors / Tile::cluster * Tile::cluster;
  launch(fused_kernel<T, E>, static_cast<unsigned>(blocks), Tile::threads, Tile::shared_bytes, maps,
         epilogue, sizes);
  return true;
}

template <class T>
bool run_gelu(const TensorView& a, const TensorView& b, const ActivationBackward& args) {
  const int64_t rows = a.shape[0] / Tile::rows, width = b.shape[1];
  const Tensor sums = args.dbias.present() ? workspace({rows, width}, DType::f32) : Tensor();
  const fused::GeluBackward<T> epilogue{
      .x = args.pre_activation.as<const T>(),
      .dx = args.dx.as<T>(),
      .y = args.y.as<T>(),
      .sums = sums.defined() ? static_cast<float*>(sums.raw_data()) : nullptr,
      .pitch = static_cast<int>(width)};
  if (!run<T>(a, b, epilogue)) return false;
  if (!sums.defined()) return true;
  Target dbias = args.dbias;
  dbias.view.shape = {1, width};
  dbias.view.strides = {width, args.dbias.view.strides[0]};
  reduce_kernels.reduce(Reduction::sum, sums, dbias);
  return true;
}

template <class T>
bool run_swiglu(const TensorView& a, const TensorView& b, const SwiGluBackward& args) {
  return run<T>(a, b,
                fused::SwiGluBackwardTile<T>{.x = args.x.as<const T>(),
                                             .dx = args.dx.as<T>(),
                                             .y = args.y.as<T>(),
                                             .sums = nullptr,
                                             .pitch = static_cast<int>(args.x.shape[1])});
}

}  // namespace

bool fused_activation_backward(const TensorView& a, const TensorView& b,
                               const ActivationBackward& args) {
  if (!has_hopper_kernels() || args.activation != Activation::gelu_tanh || !args.y.present ||
      !has_whole_tiles(a, b) || !is_uniform(a, {&a, &b, &args.pre_activation, &args.dx, &args.y}))
    return false;
  return a.dtype == DType::f16 ? run_gelu<f16>(a, b, args) : run_gelu<bf16>(a, b, args);
}

bool fused_swiglu_backward(const TensorView& a, const TensorView& b, const SwiGluBackward& args) {
  if (!has_hopper_kernels() || !args.y.present || !has_whole_tiles(a, b) ||
      !is_uniform(a, {&a, &b, &args.x, &args.dx, &args.y}))
    return false;
  return a.dtype == DType::f16 ? run_swiglu<f16>(a, b, args) : run_swiglu<bf16>(a, b, args);
}

}  // namespace binade::backend::cuda
