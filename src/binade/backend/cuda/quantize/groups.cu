#include "binade/backend/cuda/quantize/groups.h"

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/cuda/quantize/fp8_encode.cuh"
#include "binade/backend/quantize_scale.h"

namespace binade::backend::cuda {
namespace {

constexpr int group_threads = 256;
// A warp reduces groups up to this size, a block larger ones: 32 elements per thread of a warp.
constexpr int64_t max_warp_group = 1024;

// A matrix of f64, f32, f16 or bf16. Its dtype is a run-time value: these kernels are bound by
// memory, and one instance for each pair of dtypes would take long to compile.
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

// Encodes x * scale as either FP8 type.
__device__ uint8_t encode_scaled(DType fp8, float x, float scale) {
  if (is_special(x)) return fp8 == DType::e4m3 ? encode_special<e4m3>(x) : encode_special<e5m2>(x);
  return fp8 == DType::e4m3 ? encode_one<e4m3>(x * scale) : encode_one<e5m2>(x * scale);
}

struct AbsMax {
  __device__ float operator()(float a, float b) const { return larger(a, b); }
};

// A matrix and its groups, quantized with scales from its values.
struct GroupsArgs {
  Source x;
  int64_t rows, columns;
  ScaleGroup group;
  int64_t across, groups;  // groups side by side, and in all
  ScaleRule rule;
  float max_value;  // of the FP8 type
  DType fp8;
  uint8_t* data;
  float* scale_inv;
};

// One warp or one block per group of rows x columns.
template <bool by_warp>
__global__ void __launch_bounds__(group_threads)
    groups_kernel(const __grid_constant__ GroupsArgs a) {
  __shared__ float scratch[warp_size];
  constexpr int threads = by_warp ? warp_size : group_threads;
  const int thread = static_cast<int>(threadIdx.x) % threads;
  const int64_t first = by_warp ? first_item() / warp_size : blockIdx.x;
  const int64_t step = by_warp ? item_step() / warp_size : gridDim.x;
  for (int64_t index = first; index < a.groups; index += step) {
    const int64_t top = index / a.across * a.group.rows, left = index % a.across * a.group.columns;
    const int64_t height = min(a.group.rows, a.rows - top),
                  width = min(a.group.columns, a.columns - left);
    float amax = 0;
    for (int64_t i = thread; i < height * width; i += threads) {
      const int64_t row = i / width;
      amax = larger(amax, a.x.at(top + row, left + i - row * width));
    }
    if constexpr (by_warp) {
      amax = reduce_warp(amax, AbsMax{});
    } else {
      amax = reduce_block(amax, AbsMax{}, 0.0f, scratch);
    }
    const float scale = scale_for(amax, a.max_value, a.rule);
    if (thread == 0) a.scale_inv[index] = 1 / scale;
    for (int64_t i = thread; i < height * width; i += threads) {
      const int64_t row = top + i / width, column = left + i % width;
      a.data[row * a.columns + column] = encode_scaled(a.fp8, a.x.at(row, column), scale);
    }
  }
}

// A matrix in MX groups.
struct MxArgs {
  Source x;
  int64_t columns;
  int64_t across, groups;  // groups side by side, and in all
  int max_exponent;        // of the FP8 type
  DType fp8;
  uint8_t *data, *scale_inv;
};

// One warp per group of 32 along a row.
__global__ void __launch_bounds__(group_threads) mx_kernel(const __grid_constant__ MxArgs a) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int64_t index = first_item() / warp_size; index < a.groups;
       index += item_step() / warp_size) {
    const int64_t row = index / a.across, column = index % a.across * mx_group + lane;
    const float value = column < a.columns ? a.x.at(row, column) : 0;
    const MxScale scale = mx_scale(reduce_warp(fabsf(value), AbsMax{}), a.max_exponent);
    if (lane == 0) a.scale_inv[index] = scale.code;
    if (column < a.columns)
      a.data[row * a.columns + column] = encode_scaled(a.fp8, scale.apply(value), 1);
  }
}

template <class Q, class S>
struct DequantizeArgs {
  const Q* data;
  const S* scale_inv;
  ScaleGroup group;
  int64_t across;  // groups side by side
  int64_t rows, columns;
  void* x;
  DType dtype;  // of x
  int64_t row_stride, column_stride;
};

template <class Q, class S>
__global__ void __launch_bounds__(group_threads)
    dequantize_kernel(const __grid_constant__ DequantizeArgs<Q, S> a) {
  for (int64_t i = first_item(); i < a.rows * a.columns; i += item_step()) {
    const int64_t row = i / a.columns, column = i - row * a.columns;
    const int64_t group = row / a.group.rows * a.across + column / a.group.columns;
    const float value = static_cast<float>(a.data[i]) * scale_inv_value(a.scale_inv[group]);
    const int64_t offset = row * a.row_stride + column * a.column_stride;
    switch (a.dtype) {
      case DType::f64:
        static_cast<double*>(a.x)[offset] = value;
        break;
      case DType::f16:
        static_cast<f16*>(a.x)[offset] = f16(value);
        break;
      case DType::bf16:
        static_cast<bf16*>(a.x)[offset] = bf16(value);
        break;
      default:
        static_cast<float*>(a.x)[offset] = value;
        break;
    }
  }
}

void require_types(const char* op, const TensorView& values, const TensorView& data) {
  if (is_compute(values.dtype) && is_quantized(data.dtype)) return;
  fail(op, {.argument = "x, q",
            .expected = "f64, f32, f16 or bf16, and e4m3 or e5m2",
            .found = std::string(name(values.dtype)) + ", " + std::string(name(data.dtype))});
}

}  // namespace

void quantize_fine_groups(const TensorView& x, const GroupQuantizedOutput& out) {
  require_types("quantize", x, out.data);
  const Shape scales = scale_shape(x.shape, out.group);
  const ScaleGroup group = sized_group(x.shape, out.group);
  const GroupsArgs args{.x = Source(x),
                        .rows = x.shape[0],
                        .columns = x.shape[1],
                        .group = group,
                        .across = scales[1],
                        .groups = scales.numel(),
                        .rule = out.rule,
                        .max_value = max_of(out.data.dtype),
                        .fp8 = out.data.dtype,
                        .data = out.data.as<uint8_t>(),
                        .scale_inv = out.scale_inv.as<float>()};
  const bool by_warp = group.rows * group.columns <= max_warp_group;
  const int threads_per_group = by_warp ? warp_size : group_threads;
  launch(by_warp ? groups_kernel<true> : groups_kernel<false>,
         dim3(grid_for(args.groups * threads_per_group, group_threads)), dim3(group_threads), 0,
         args);
}

void quantize_mx(TensorView x, const QuantizedView& out) {
  const TensorView &data = out.data, &scale_inv = out.scale_inv;
  if (x.numel() == 0) return;
  require_types("quantize", x, data);
  const int64_t across = ceil_div(x.shape[1], mx_group);
  const MxArgs args{.x = Source(x),
                    .columns = x.shape[1],
                    .across = across,
                    .groups = x.shape[0] * across,
                    .max_exponent = max_exponent_of(data.dtype),
                    .fp8 = data.dtype,
                    .data = data.as<uint8_t>(),
                    .scale_inv = scale_inv.as<uint8_t>()};
  launch(mx_kernel, dim3(grid_for(args.groups * warp_size, group_threads)), dim3(group_threads), 0,
         args);
}

void dequantize(const QuantizedView& q, TensorView x) {
  const TensorView &data = q.data, &scale_inv = q.scale_inv;
  const ScaleGroup group = q.layout.group;
  if (data.numel() == 0) return;
  require_types("dequantize", x, data);
  const auto run = [&](auto fp8, auto scale) {
    using Q = typename decltype(fp8)::type;
    using S = typename decltype(scale)::type;
    const DequantizeArgs<Q, S> args{.data = data.as<const Q>(),
                                    .scale_inv = scale_inv.as<const S>(),
                                    .group = sized_group(data.shape, group),
                                    .across = scale_shape(data.shape, group)[1],
                                    .rows = data.shape[0],
                                    .columns = data.shape[1],
                                    .x = x.data,
                                    .dtype = x.dtype,
                                    .row_stride = x.strides[0],
                                    .column_stride = x.strides[1]};
    launch(dequantize_kernel<Q, S>, dim3(grid_for(data.numel(), group_threads)),
           dim3(group_threads), 0, args);
  };
  const auto run_for = [&](auto fp8) {
    if (scale_inv.dtype == DType::f32) return run(fp8, TypeTag<float>{});
    run(fp8, TypeTag<uint8_t>{});
  };
  if (data.dtype == DType::e4m3) return run_for(TypeTag<e4m3>{});
  run_for(TypeTag<e5m2>{});
}

}  // namespace binade::backend::cuda
