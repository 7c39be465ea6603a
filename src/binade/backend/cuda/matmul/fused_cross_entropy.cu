#include "binade/backend/cuda/matmul/fused_cross_entropy.h"

#include <algorithm>

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/matmul/hopper_cross_entropy.cuh"
#include "binade/backend/cuda/matmul/hopper_matmul.cuh"

namespace binade::backend::cuda {
namespace {

using fused::Tile;

constexpr int threads = 256;
constexpr int rows_per_block = threads / warp_size;  // where a warp has a row
constexpr int pack = 8;

// What the kernels around the matmul read and write.
struct Head {
  const bf16 *x, *weight;
  int rows, width, classes, pitch;
  Targets targets;
  int64_t ignore_index;
  bf16* gradients;
  float *losses, *factors;
  // Scratch of the matmul.
  float *references, *label_logits, *sums;
  int tiles;

  __device__ bool names_class(int64_t label) const { return label >= 0 && label < classes; }
};

// The part of a dot product of this thread: packs from `first` on, `step` apart.
__device__ float dot(const bf16* a, const bf16* b, int width, int first, int step) {
  float sum = 0;
  for (int i = first; i < width; i += step) {
    const Pack<bf16, pack> x = load_pack<bf16, pack>(a + i), y = load_pack<bf16, pack>(b + i);
#pragma unroll
    for (int j = 0; j < pack; ++j) sum = fmaf(cast<float>(x[j]), cast<float>(y[j]), sum);
  }
  return sum;
}

// The logit of each row's label, up to the order of its sum. Rows that do not count get infinity
// and those whose label is not a class NaN: a kernel cannot throw.
__global__ void __launch_bounds__(threads) references_kernel(const __grid_constant__ Head h) {
  const int row = static_cast<int>(blockIdx.x) * rows_per_block + threadIdx.x / warp_size;
  if (row >= h.rows) return;
  const int64_t label = h.targets[row];
  float reference = label == h.ignore_index ? std::numeric_limits<float>::infinity()
                                            : std::numeric_limits<float>::quiet_NaN();
  if (label != h.ignore_index && h.names_class(label)) {
    const float part = dot(h.x + int64_t{row} * h.width, h.weight + label * h.width, h.width,
                           fused::lane() * pack, warp_size * pack);
    reference = cast<float>(cast<bf16>(reduce_warp(part, Sum())));
  }
  if (fused::lane() == 0) h.references[row] = reference;
}

// Exponentials of rows whose sums reach this are computed again, relative to the row's largest
// logit: then neither they nor sums of their products overflow. A row's loss is above 76 there.
constexpr float largest_sum = 0x1p110f;
constexpr float to_be_redone = -1;  // a factor

// Completes rows: their losses and factors, and the gradients of their labels.
__global__ void __launch_bounds__(threads) finish_kernel(const __grid_constant__ Head h) {
  const int row = static_cast<int>(blockIdx.x) * rows_per_block + threadIdx.x / warp_size;
  if (row >= h.rows) return;
  float sum = 0;
  for (int i = fused::lane(); i < h.tiles; i += warp_size)
    sum += h.sums[int64_t{row} * h.tiles + i];
  sum = reduce_warp(sum, Sum());
  if (fused::lane() != 0) return;
  const int64_t label = h.targets[row];
  if (label == h.ignore_index) {
    h.losses[row] = h.factors[row] = 0;
  } else if (!h.names_class(label)) {
    h.losses[row] = h.factors[row] = std::numeric_limits<float>::quiet_NaN();
  } else if (sum >= largest_sum) {
    h.factors[row] = to_be_redone;
  } else {
    const float of_label = fused::exp_of_difference(h.label_logits[row] - h.references[row]);
    h.losses[row] = logf(sum / of_label);
    h.factors[row] = 1 / sum;
    // Not from the stored exponential, whose rounding would be all that is left of a small loss.
    h.gradients[int64_t{row} * h.pitch + label] = cast<bf16>(of_label - sum);
  }
}

// The row's complete gradients, by the block.
__device__ void redo_row(const Head& h, int row, float* scratch) {
  const bf16* x = h.x + int64_t{row} * h.width;
  bf16* logits = h.gradients + int64_t{row} * h.pitch;
  const auto label = static_cast<int>(h.targets[row]), first = static_cast<int>(threadIdx.x);
  float largest = -std::numeric_limits<float>::infinity();
  for (int i = first; i < h.classes; i += threads) {
    logits[i] = cast<bf16>(dot(x, h.weight + int64_t{i} * h.width, h.width, 0, pack));
    largest = Max()(largest, cast<float>(logits[i]));
  }
  largest = reduce_block(largest, Max(), -std::numeric_limits<float>::infinity(), scratch);
  float sum = 0;
  for (int i = first; i < h.classes; i += threads)
    sum += fused::exp_of_difference(cast<float>(logits[i]) - largest);
  sum = reduce_block(sum, Sum(), 0.0f, scratch);
  for (int i = first; i < h.classes; i += threads) {
    const float logit = cast<float>(logits[i]);
    const float probability = fused::exp_of_difference(logit - largest) / sum;
    logits[i] = cast<bf16>(i == label ? probability - 1 : probability);
    if (i == label) h.losses[row] = (largest - logit) + logf(sum);
  }
  if (first == 0) h.factors[row] = 1;
}

// Hardly ever there is such a row.
__global__ void __launch_bounds__(threads) redo_kernel(const __grid_constant__ Head h) {
  __shared__ float scratch[warp_size];
  __shared__ bool redo[threads];
  const int first = static_cast<int>(blockIdx.x) * threads, own = first + threadIdx.x;
  redo[threadIdx.x] = own < h.rows && h.factors[own] == to_be_redone;
  if (__syncthreads_count(redo[threadIdx.x]) == 0) return;
  for (int i = 0; i < threads; ++i)
    if (redo[i]) redo_row(h, first + i, scratch);
}

bool is_supported(const TensorView& x) {
  return x.dtype == DType::bf16 && x.is_dense() && packs_fit<bf16, pack>(x.data);
}

bool supports(const LinearCrossEntropy& args) {
  const int64_t rows = args.x.shape[0], width = args.x.shape[1], n = args.weight.shape[0];
  const TensorView& y = args.loss.logits;
  return has_hopper_kernels() && args.loss.smoothing == 0 && is_supported(args.x) &&
         is_supported(args.weight) && y.dtype == DType::bf16 && packs_fit<bf16, pack>(y.data) &&
         y.strides[1] == 1 && (rows == 1 || y.strides[0] == n) && n % pack == 0 &&
         width % Tile::depth == 0 && width >= Tile::least_depth &&
         std::max({rows, width, n}) < INT32_MAX / 2 && fused::occupies_gpu(rows, n);
}

void run(const LinearCrossEntropy& args) {
  const int64_t rows = args.x.shape[0], n = args.weight.shape[0];
  const int64_t tiles = divide_up(n, Tile::columns);
  const Tensor scratch = workspace({rows, tiles + 2}, DType::f32);
  auto* const numbers = static_cast<float*>(scratch.raw_data());
  const Head head{.x = args.x.as<const bf16>(),
                  .weight = args.weight.as<const bf16>(),
                  .rows = static_cast<int>(rows),
                  .width = static_cast<int>(args.x.shape[1]),
                  .classes = static_cast<int>(args.loss.logits.shape[1]),
                  .pitch = static_cast<int>(n),
                  .targets = targets_of("linear_cross_entropy", args.loss.target),
                  .ignore_index = args.loss.ignore_index,
                  .gradients = args.loss.logits.as<bf16>(),
                  .losses = args.loss.losses.as<float>(),
                  .factors = args.factors.as<float>(),
                  .references = numbers,
                  .label_logits = numbers + rows,
                  .sums = numbers + 2 * rows,
                  .tiles = static_cast<int>(tiles)};
  const auto blocks = static_cast<unsigned>(divide_up(rows, rows_per_block));
  launch(references_kernel, blocks, threads, 0, head);
  fused::run<bf16, fused::Order::n_by_k, fused::ExponentialProcessor>(
      args.x, args.weight,
      {.y = head.gradients,
       .rows = head.rows,
       .classes = head.classes,
       .pitch = head.pitch,
       .references = head.references,
       .targets = head.targets,
       .label_logits = head.label_logits,
       .sums = head.sums,
       .tiles = head.tiles});
  launch(finish_kernel, blocks, threads, 0, head);
  launch(redo_kernel, static_cast<unsigned>(divide_up(rows, threads)), threads, 0, head);
}

}  // namespace

const FusedKernel<LinearCrossEntropy> fused_cross_entropy{.supports = supports, .run = run};

}  // namespace binade::backend::cuda
