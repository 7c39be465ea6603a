#include "binade/backend/cuda/quantize/groups.h"

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/quantize/fp8_encode.cuh"
#include "binade/backend/fp8_scale.h"

namespace binade::backend::cuda {
namespace {

constexpr int group_threads = 256;
// Groups up to this many elements are one warp's work.
constexpr int64_t warp_elements = 1024;

// A matrix of f64, f32, f16 or bf16 by its type at run time: these kernels wait for memory, and one
// for each pair of types would take long to compile.
struct Source {
  const void* data;
  DType dtype;
  int64_t row_stride, column_stride;

  explicit Source(const TensorView& x)
      : data(x.data), dtype(x.dtype), row_stride(x.strides[0]), column_stride(x.strides[1]) {}

  __device__ float at(int64_t row, int64_t column) const {
    const int64_t offset = row * row_stride + column * column_stride;
    switch (dtype) {
      case DType::f64:
        return static_cast<float>(static_cast<const double*>(data)[offset]);
      case DType::f16:
        return static_cast<const f16*>(data)[offset];
      case DType::bf16:
        return static_cast<const bf16*>(data)[offset];
      default:
        return static_cast<const float*>(data)[offset];
    }
  }
};

// One code of x * scale, for either FP8 type.
__device__ uint8_t encode_scaled(DType fp8, float x, float scale) {
  const float scaled = x != x ? x : x * scale;
  return fp8 == DType::e4m3 ? encode_one<e4m3>(scaled) : encode_one<e5m2>(scaled);
}

struct AbsMax {
  __device__ float operator()(float a, float b) const { return larger(a, b); }
};

// A warp or a block for each group of rows x columns.
template <bool by_warp>
__global__ void __launch_bounds__(group_threads)
    groups_kernel(Source x, int64_t rows, int64_t columns, ScaleGroup group, int64_t across,
                  int64_t groups, ScaleRule rule, float max_value, DType fp8, uint8_t* q,
                  float* inverse) {
  __shared__ float scratch[warp_size];
  constexpr int threads = by_warp ? warp_size : group_threads;
  const int thread = static_cast<int>(threadIdx.x) % threads;
  const int64_t first = by_warp ? first_item() / warp_size : blockIdx.x;
  const int64_t step = by_warp ? item_step() / warp_size : gridDim.x;
  for (int64_t index = first; index < groups; index += step) {
    const int64_t top = index / across * group.rows, left = index % across * group.columns;
    const int64_t height = min(group.rows, rows - top), width = min(group.columns, columns - left);
    float amax = 0;
    for (int64_t i = thread; i < height * width; i += threads) {
      const int64_t row = i / width;
      amax = larger(amax, x.at(top + row, left + i - row * width));
    }
    if constexpr (by_warp) {
      amax = reduce_warp(amax, AbsMax{});
    } else {
      amax = reduce_block(amax, AbsMax{}, 0.0f, scratch);
    }
    const float scale = scale_for(amax, max_value, rule);
    if (thread == 0) inverse[index] = 1 / scale;
    for (int64_t i = thread; i < height * width; i += threads) {
      const int64_t row = top + i / width, column = left + i % width;
      q[row * columns + column] = encode_scaled(fp8, x.at(row, column), scale);
    }
  }
}

// A warp for each group of 32 along a row.
__global__ void __launch_bounds__(group_threads)
    mx_kernel(Source x, int64_t columns, int64_t across, int64_t groups, int max_exponent,
              DType fp8, uint8_t* q, uint8_t* codes) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int64_t index = first_item() / warp_size; index < groups; index += item_step() / warp_size) {
    const int64_t row = index / across, column = index % across * mx_group + lane;
    const float value = column < columns ? x.at(row, column) : 0;
    const MxScale scale = mx_scale(reduce_warp(fabsf(value), AbsMax{}), max_exponent);
    if (lane == 0) codes[index] = scale.code;
    if (column < columns) q[row * columns + column] = encode_scaled(fp8, scale.apply(value), 1);
  }
}

template <class Q, class S>
__global__ void __launch_bounds__(group_threads)
    dequantize_kernel(const Q* q, const S* inverse, ScaleGroup group, int64_t across, int64_t rows,
                      int64_t columns, void* x, DType dtype, int64_t row_stride,
                      int64_t column_stride) {
  for (int64_t i = first_item(); i < rows * columns; i += item_step()) {
    const int64_t row = i / columns, column = i - row * columns;
    const float factor = inverse_value(inverse[row / group.rows * across + column / group.columns]);
    const float value = static_cast<float>(q[i]) * factor;
    const int64_t offset = row * row_stride + column * column_stride;
    switch (dtype) {
      case DType::f64:
        static_cast<double*>(x)[offset] = value;
        break;
      case DType::f16:
        static_cast<f16*>(x)[offset] = f16(value);
        break;
      case DType::bf16:
        static_cast<bf16*>(x)[offset] = bf16(value);
        break;
      default:
        static_cast<float*>(x)[offset] = value;
        break;
    }
  }
}

void require_types(const char* op, const TensorView& values, const TensorView& codes) {
  if (is_compute(values.dtype) && is_fp8(codes.dtype)) return;
  fail(op, {.argument = "x, q",
            .expected = "f64, f32, f16 or bf16, and e4m3 or e5m2",
            .found = std::string(name(values.dtype)) + ", " + std::string(name(codes.dtype))});
}

// The group with 0, for all there are, in numbers.
ScaleGroup sized(ScaleGroup group, const Shape& matrix) {
  return {group.rows == 0 ? matrix[0] : group.rows, group.columns == 0 ? matrix[1] : group.columns};
}

}  // namespace

void quantize_finely(const TensorView& x, ScaleGroup group, ScaleRule rule, const TensorView& q,
                     const TensorView& inverse) {
  require_types("quantize", x, q);
  const Shape scales = scale_shape(x.shape, group);
  const ScaleGroup size = sized(group, x.shape);
  const bool by_warp = size.rows * size.columns <= warp_elements;
  const unsigned grid = by_warp ? grid_for(scales.numel() * warp_size, group_threads)
                                : grid_for(scales.numel() * group_threads, group_threads);
  launch(by_warp ? groups_kernel<true> : groups_kernel<false>, dim3(grid), dim3(group_threads), 0,
         Source(x), x.shape[0], x.shape[1], size, scales[1], scales.numel(), rule, fp8_max(q.dtype),
         q.dtype, q.as<uint8_t>(), inverse.as<float>());
}

void quantize_mx(TensorView x, TensorView q, TensorView codes) {
  if (x.numel() == 0) return;
  require_types("quantize", x, q);
  const int64_t across = ceil_div(x.shape[1], mx_group), groups = x.shape[0] * across;
  launch(mx_kernel, dim3(grid_for(groups * warp_size, group_threads)), dim3(group_threads), 0,
         Source(x), x.shape[1], across, groups, fp8_max_exponent(q.dtype), q.dtype, q.as<uint8_t>(),
         codes.as<uint8_t>());
}

void dequantize(TensorView q, TensorView inverse, ScaleGroup group, TensorView x) {
  if (q.numel() == 0) return;
  require_types("dequantize", x, q);
  const Shape scales = scale_shape(q.shape, group);
  const auto run = [&](auto code, auto scale) {
    using Q = typename decltype(code)::type;
    using S = typename decltype(scale)::type;
    launch(dequantize_kernel<Q, S>, dim3(grid_for(q.numel(), group_threads)), dim3(group_threads),
           0, q.as<const Q>(), inverse.as<const S>(), sized(group, q.shape), scales[1], q.shape[0],
           q.shape[1], x.data, x.dtype, x.strides[0], x.strides[1]);
  };
  const auto run_for = [&](auto code) {
    if (inverse.dtype == DType::f32) return run(code, TypeTag<float>{});
    run(code, TypeTag<uint8_t>{});
  };
  if (q.dtype == DType::e4m3) return run_for(TypeTag<e4m3>{});
  run_for(TypeTag<e5m2>{});
}

}  // namespace binade::backend::cuda
