#include "binade/backend/cuda/conv/space_to_depth.h"

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/pack.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;
constexpr int block = 2;  // positions of a block along an axis: the stride

// Sizes and offsets for kernels.
struct Blocks {
  int64_t channels;            // of x
  int64_t in_h, in_w;          // of x, or of the kernel
  int64_t h, w;                // of the blocks
  int64_t offset_h, offset_w;  // block 0 begins at these positions, which may be negative

  // The element of x's image that channel `c` of block (i, j) is, or -1.
  __device__ int64_t source(int64_t i, int64_t j, int c) const {
    const int64_t part = c / static_cast<int>(channels);
    if (part >= block * block) return -1;
    const int64_t row = i * block + part / block + offset_h,
                  column = j * block + part % block + offset_w;
    if (row < 0 || row >= in_h || column < 0 || column >= in_w) return -1;
    return (row * in_w + column) * channels + (c - part * channels);
  }
};

using Folded = Pack<uint16_t, SpaceToDepth::channels>;

// C: channels of x.
template <int C>
__global__ void __launch_bounds__(threads)
    fold_input_kernel(int64_t count, const Blocks b, const uint16_t* x, uint16_t* y) {
  for (int64_t item = first_item(); item < count; item += item_step()) {
    const int64_t row = quotient(item, b.w), image = quotient(row, b.h);
    const int64_t first_row = (row - image * b.h) * block + b.offset_h,
                  first_column = (item - row * b.w) * block + b.offset_w;
    Folded out{};
#pragma unroll
    for (int part = 0; part < block * block; ++part) {
      const int64_t in_row = first_row + part / block, in_column = first_column + part % block;
      if (in_row < 0 || in_row >= b.in_h || in_column < 0 || in_column >= b.in_w) continue;
      const uint16_t* from = x + ((image * b.in_h + in_row) * b.in_w + in_column) * C;
#pragma unroll
      for (int c = 0; c < C; ++c) out[part * C + c] = from[c];
    }
    store_pack(y + item * SpaceToDepth::channels, out);
  }
}

// Element [o, c, r, s] of a row-major weight from the channels-last `at` of source().
__device__ int64_t weight_element(const Blocks& b, int64_t out, int64_t at) {
  const int64_t tap = at / b.channels, channel = at - tap * b.channels;
  return (out * b.channels + channel) * b.in_h * b.in_w + tap;
}

// Calls f(element of the weight or -1) for one element of the folded weight.
template <class F>
__device__ void for_weight(int64_t item, const Blocks& b, F f) {
  const int c = static_cast<int>(item % SpaceToDepth::channels);
  const int64_t position = item / SpaceToDepth::channels, row = position / b.w, out = row / b.h;
  const int64_t at = b.source(row - out * b.h, position - row * b.w, c);
  f(at < 0 ? at : weight_element(b, out, at));
}

__global__ void __launch_bounds__(threads)
    fold_weight_kernel(int64_t count, const Blocks b, const uint16_t* weight, uint16_t* y) {
  for (int64_t item = first_item(); item < count; item += item_step())
    for_weight(item, b, [&](int64_t at) { y[item] = at < 0 ? uint16_t{0} : weight[at]; });
}

__global__ void __launch_bounds__(threads)
    unfold_weight_kernel(int64_t count, const Blocks b, Operand folded, TargetOperand dweight) {
  for (int64_t item = first_item(); item < count; item += item_step()) {
    for_weight(item, b, [&](int64_t at) {
      if (at >= 0) store_one(dweight, at, load_one<float>(folded, item));
    });
  }
}

Blocks weight_blocks(const SpaceToDepth& s, const TensorView& weight) {
  return {.channels = weight.shape[1],
          .in_h = weight.shape[3],
          .in_w = weight.shape[4],
          .h = s.weight_shape[3],
          .w = s.weight_shape[4],
          .offset_h = -s.shift[0],
          .offset_w = -s.shift[1]};
}

}  // namespace

bool SpaceToDepth::applies(const TensorView& x, const ConvGeometry& geometry) {
  return size_of(x.dtype) == 2 && x.shape[1] * block * block <= channels && x.shape[2] == 1 &&
         geometry.groups == 1 && geometry.stride == std::array<int64_t, 3>{1, block, block} &&
         geometry.dilation == std::array<int64_t, 3>{1, 1, 1} && geometry.padding[0] == 0;
}

SpaceToDepth::SpaceToDepth(const TensorView& x, const TensorView& weight, const TensorView& y,
                           const ConvGeometry& geometry)
    : x_shape{x.shape[0], channels, 1, 0, 0}, weight_shape{weight.shape[0], channels, 1, 0, 0} {
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t padding = geometry.padding[static_cast<size_t>(axis) + 1];
    shift[axis] = padding % block;
    before[axis] = (padding + shift[axis]) / block;
    weight_shape[3 + axis] = divide_up(weight.shape[3 + axis] + shift[axis], block);
    x_shape[3 + axis] = y.shape[3 + axis] + weight_shape[3 + axis] - 1;
  }
}

void SpaceToDepth::fold_input(const TensorView& x, const TensorView& blocks) const {
  static constexpr decltype(&fold_input_kernel<1>) kernels[] = {
      fold_input_kernel<1>, fold_input_kernel<2>, fold_input_kernel<3>, fold_input_kernel<4>};
  const int64_t count = x_shape[0] * x_shape[3] * x_shape[4];
  launch(kernels[x.shape[1] - 1], grid_for(count, threads, 16), threads, 0, count,
         Blocks{.channels = x.shape[1],
                .in_h = x.shape[3],
                .in_w = x.shape[4],
                .h = x_shape[3],
                .w = x_shape[4],
                .offset_h = -before[0] * block,
                .offset_w = -before[1] * block},
         x.as<uint16_t>(), blocks.as<uint16_t>());
}

void SpaceToDepth::fold_weight(const TensorView& weight, const TensorView& blocks) const {
  const int64_t count = weight_shape.numel();
  launch(fold_weight_kernel, grid_for(count, threads), threads, 0, count,
         weight_blocks(*this, weight), weight.as<uint16_t>(), blocks.as<uint16_t>());
}

void SpaceToDepth::unfold_weight_gradient(const TensorView& blocks, const TensorView& dweight,
                                          bool accumulate) const {
  const int64_t count = weight_shape.numel();
  launch(unfold_weight_kernel, grid_for(count, threads), threads, 0, count,
         weight_blocks(*this, dweight), Operand(blocks),
         TargetOperand(Target{.view = dweight, .accumulate = accumulate}));
}

}  // namespace binade::backend::cuda
