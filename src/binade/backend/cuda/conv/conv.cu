#include "binade/backend/conv.h"

#include <algorithm>

#include "binade/backend/cuda/conv/channels_last.h"
#include "binade/backend/cuda/conv/im2col.h"
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/kernels.h"
#include "binade/tensor/memory.h"
#include "binade/tensor/memory_format.h"
#ifdef BINADE_CUDNN
#include "binade/backend/cuda/conv/cudnn.h"
#endif

// cuDNN if it supports the tensors, else matmuls of columns, which are made a part at a time.
namespace binade::backend::cuda {
namespace {

// About the memory for columns: matmuls of this size run at full speed.
constexpr int64_t scratch_bytes = int64_t{256} << 20;

// Whether a matmul of `operand`s can store its result as `result`.
bool stores_directly(DType operand, DType result) {
  return result == operand || result == accumulation_type(operand);
}

Tensor scratch(const Shape& shape, DType dtype) { return Tensor::empty(shape, dtype, device()); }

void* at(const TensorView& x, int64_t offset) {
  return x.as<char>() + offset * static_cast<int64_t>(size_of(x.dtype));
}

// The bias in the sums' type; `holder` owns it if it had to be converted.
TensorView as_compute(const TensorView& bias, DType dtype, Tensor& holder) {
  if (!bias.present || bias.dtype == dtype) return bias;
  holder = scratch(bias.shape, dtype);
  elementwise_kernels.copy(bias, holder);
  return holder;
}

// A matrix for each image and group.
struct Matrices {
  void* data;
  DType dtype;
  int64_t image, group, row, column;  // strides

  TensorView view(int64_t image_at, int64_t group_at, bool of_groups, int64_t count, int64_t rows,
                  int64_t columns) const {
    TensorView v;
    v.data = static_cast<char*>(data) +
             (image_at * image + group_at * group) * static_cast<int64_t>(size_of(dtype));
    v.dtype = dtype;
    v.shape = {count, rows, columns};
    v.strides = {of_groups ? group : image, row, column};
    v.present = true;
    return v;
  }
};

// y [m, n] = a [m, k] b [k, n], or y += a b, for each image and group.
struct GroupedMatmul {
  int64_t images, groups;
  int64_t m, n, k;
  Matrices a, b, y;
  bool accumulate = false;
};

// Uses as few batched matmuls as possible: over the images of each group, or the groups of each
// image.
void multiply(const GroupedMatmul& matmul) {
  const auto& [images, groups, m, n, k, a, b, y, accumulate] = matmul;
  const bool of_groups = groups > images;
  const int64_t batch = std::max(images, groups), calls = std::min(images, groups);
  for (int64_t i = 0; i < calls; ++i) {
    const int64_t image = of_groups ? i : 0, group = of_groups ? 0 : i;
    matmul_kernels.matmul(
        a.view(image, group, of_groups, batch, m, k), b.view(image, group, of_groups, batch, k, n),
        y.view(image, group, of_groups, batch, m, n), {.beta = accumulate ? 1.0f : 0.0f});
  }
}

// Images, and positions of each, whose columns take at most scratch_bytes.
struct Parts {
  int64_t images, positions;

  Parts(const ConvSizes& sizes, int64_t bytes_per_column) {
    const int64_t columns =
        std::max<int64_t>(scratch_bytes / std::max<int64_t>(bytes_per_column, 1), 1);
    images = std::clamp<int64_t>(columns / sizes.out_plane, 1, std::max<int64_t>(sizes.images, 1));
    positions = std::min(columns, sizes.out_plane);
  }

  template <class F>
  void for_each(const ConvSizes& sizes, F&& f) const {
    for (int64_t image = 0; image < sizes.images; image += images)
      for (int64_t first = 0; first < sizes.out_plane; first += positions)
        f(ConvPart{image, std::min(images, sizes.images - image), first,
                   std::min(positions, sizes.out_plane - first)});
  }
};

// ---- forward ----

void forward_columns(const ConvSizes& sizes, const ConvForward& call, const TensorView& bias) {
  const TensorView &x = call.x, &weight = call.weight, &y = call.y;
  const int64_t out = sizes.groups * sizes.out_channels, rows = sizes.groups * sizes.rows();
  const DType wide = accumulation_type(x.dtype);
  const bool direct = !bias.present || y.dtype == wide;  // else y would be rounded twice
  const bool pointwise = sizes.pointwise();
  const auto size = [](DType dtype) { return static_cast<int64_t>(size_of(dtype)); };
  const Parts parts(sizes,
                    std::max(pointwise ? 0 : rows * size(x.dtype), direct ? 0 : out * size(wide)));
  Tensor columns, result;
  if (!pointwise) columns = scratch({parts.images, rows, parts.positions}, x.dtype);
  if (!direct) result = scratch({parts.images, out, parts.positions}, wide);
  const Matrices w{
      weight.data, weight.dtype, 0, sizes.out_channels * sizes.rows(), sizes.rows(), 1};
  parts.for_each(sizes, [&](const ConvPart& part) {
    ConvMatrix in{at(x, sizes.in_offset(part.image, 0) + part.first), rows * sizes.in_plane,
                  sizes.in_plane};
    if (!pointwise) {
      in = {columns.raw_data(), rows * part.count, part.count};
      make_columns(sizes, x, part, in);
    }
    ConvMatrix to{at(y, sizes.out_offset(part.image, 0) + part.first), out * sizes.out_plane,
                  sizes.out_plane};
    if (!direct) to = {result.raw_data(), out * part.count, part.count};
    const DType type = direct ? y.dtype : wide;
    multiply(
        {.images = part.images,
         .groups = sizes.groups,
         .m = sizes.out_channels,
         .n = part.count,
         .k = sizes.rows(),
         .a = w,
         .b = {in.data, x.dtype, in.image_stride, sizes.rows() * in.row_stride, in.row_stride, 1},
         .y = {to.data, type, to.image_stride, sizes.out_channels * to.row_stride, to.row_stride,
               1}});
    if (bias.present) add_channel_bias(to, type, bias, part, y);
  });
}

// ---- backward ----

void backward_input_columns(const ConvSizes& sizes, const ConvBackwardInput& call,
                            const TensorView& bias) {
  const TensorView &dy = call.dy, &weight = call.weight, &dx = call.dx;
  const int64_t in = sizes.groups * sizes.in_channels, out = sizes.groups * sizes.out_channels;
  const Matrices w{weight.data, weight.dtype, 0, sizes.out_channels * sizes.rows(),
                   1,           sizes.rows()};
  const Matrices from{
      dy.data,         dy.dtype, out * sizes.out_plane, sizes.out_channels * sizes.out_plane,
      sizes.out_plane, 1};
  if (sizes.pointwise() && !bias.present && stores_directly(dy.dtype, dx.dtype)) {
    multiply({.images = sizes.images,
              .groups = sizes.groups,
              .m = sizes.in_channels,
              .n = sizes.in_plane,
              .k = sizes.out_channels,
              .a = w,
              .b = from,
              .y = {dx.data, dx.dtype, in * sizes.in_plane, sizes.in_channels * sizes.in_plane,
                    sizes.in_plane, 1},
              .accumulate = call.accumulate});
    return;
  }
  // An input's gradient sums over positions in one kernel, so images are divided by channels, not
  // by positions.
  const DType wide = accumulation_type(dy.dtype);
  const int64_t channel_bytes =
      sizes.groups * sizes.taps * sizes.out_plane * static_cast<int64_t>(size_of(wide));
  const int64_t fitting = std::max<int64_t>(scratch_bytes / std::max<int64_t>(channel_bytes, 1), 1);
  const int64_t channels = std::min(fitting, sizes.in_channels);
  const int64_t images = std::clamp<int64_t>(fitting / channels, 1, sizes.images);
  const Tensor columns =
      scratch({images, sizes.groups * channels * sizes.taps, sizes.out_plane}, wide);
  for (int64_t image = 0; image < sizes.images; image += images) {
    for (int64_t first = 0; first < sizes.in_channels; first += channels) {
      const int64_t some_images = std::min(images, sizes.images - image),
                    some = std::min(channels, sizes.in_channels - first), rows = some * sizes.taps;
      const ConvMatrix to{columns.raw_data(), sizes.groups * rows * sizes.out_plane,
                          sizes.out_plane};
      Matrices a = w, b = from;
      a.data = at(weight, first * sizes.taps);
      b.data = at(dy, image * from.image);
      multiply({.images = some_images,
                .groups = sizes.groups,
                .m = rows,
                .n = sizes.out_plane,
                .k = sizes.out_channels,
                .a = a,
                .b = b,
                .y = {to.data, wide, to.image_stride, rows * to.row_stride, to.row_stride, 1}});
      sum_columns(sizes, to, bias, {image, some_images, first, some}, dx, call.accumulate);
    }
  }
}

// dy of a part as a matrix [channels, columns]: in place if the part has one image, else gathered.
ConvMatrix gather_outputs(const ConvSizes& sizes, const TensorView& dy, const ConvPart& part,
                          const Tensor& holder) {
  const int64_t out = sizes.groups * sizes.out_channels;
  void* const first = at(dy, sizes.out_offset(part.image, 0) + part.first);
  if (part.images == 1) return {first, 0, sizes.out_plane};
  TensorView from = dy, to = holder;
  from.data = first;
  from.shape = to.shape = {out, part.images, part.count};
  from.strides = {sizes.out_plane, out * sizes.out_plane, 1};
  to.strides = dense_strides(to.shape);
  elementwise_kernels.copy(from, to);
  return {to.data, part.count, part.images * part.count};
}

// One matmul sums over all images of a part; parts are summed in order.
void backward_weight_columns(const ConvSizes& sizes, const ConvBackwardWeight& call) {
  const TensorView &x = call.x, &dy = call.dy, &dweight = call.dweight;
  const int64_t out = sizes.groups * sizes.out_channels, rows = sizes.groups * sizes.rows();
  const DType wide = accumulation_type(x.dtype);
  const Parts parts(sizes, std::max(rows, out) * static_cast<int64_t>(size_of(x.dtype)));
  const bool one_part = parts.images >= sizes.images && parts.positions == sizes.out_plane;
  const bool direct = one_part && stores_directly(x.dtype, dweight.dtype);
  const Tensor columns = scratch({rows, parts.images * parts.positions}, x.dtype);
  const Tensor outputs = scratch({out, parts.images * parts.positions}, dy.dtype);
  Tensor sums;
  if (!direct) sums = scratch(dweight.shape, wide);
  const TensorView target = direct ? dweight : TensorView(sums);
  bool add = direct && call.accumulate;
  parts.for_each(sizes, [&](const ConvPart& part) {
    const int64_t width = part.images * part.count;
    make_columns(sizes, x, part, {columns.raw_data(), part.count, width});
    const ConvMatrix from = gather_outputs(sizes, dy, part, outputs);
    multiply(
        {.images = 1,
         .groups = sizes.groups,
         .m = sizes.out_channels,
         .n = sizes.rows(),
         .k = width,
         .a = {from.data, dy.dtype, 0, sizes.out_channels * from.row_stride, from.row_stride, 1},
         .b = {columns.raw_data(), x.dtype, 0, sizes.rows() * width, 1, width},
         .y = {target.data, target.dtype, 0, sizes.out_channels * sizes.rows(), sizes.rows(), 1},
         .accumulate = add});
    add = true;
  });
  if (!direct) elementwise_kernels.axpby(1, target, call.accumulate ? 1 : 0, dweight);
}

// ---- the table ----

#ifdef BINADE_CUDNN
// cuDNN's results are rounded before the bias is added: 16-bit ones would be rounded twice.
bool rounds_once(const TensorView& bias, const TensorView& y) {
  return !bias.present || y.dtype == accumulation_type(y.dtype);
}
#endif

void forward(const ConvForward& call) {
  const auto& [x, weight, bias, geometry, y] = call;
  if (y.numel() == 0) return;
  const memory::CategoryGuard guard(memory::Category::workspace);
  if (is_channels_last(x) || is_channels_last(y)) return channels_last_forward(call);
  const ConvSizes sizes(x, weight, y, geometry);
  Tensor holder;
  const TensorView wide_bias = as_compute(bias, accumulation_type(x.dtype), holder);
#ifdef BINADE_CUDNN
  if (rounds_once(bias, y) && cudnn::conv_forward(x, weight, geometry, y)) {
    const int64_t out = sizes.groups * sizes.out_channels;
    if (bias.present)
      add_channel_bias({y.data, out * sizes.out_plane, sizes.out_plane}, y.dtype, wide_bias,
                       {0, sizes.images, 0, sizes.out_plane}, y);
    return;
  }
#endif
  forward_columns(sizes, call, wide_bias);
}

void backward_input(const ConvBackwardInput& call) {
  const auto& [dy, weight, bias, geometry, dx, accumulate] = call;
  if (dx.numel() == 0) return;
  const memory::CategoryGuard guard(memory::Category::workspace);
  if (is_channels_last(dx) || is_channels_last(dy)) return channels_last_backward_input(call);
  const ConvSizes sizes(dx, weight, dy, geometry);
  Tensor holder;
  const TensorView wide_bias = as_compute(bias, accumulation_type(dy.dtype), holder);
#ifdef BINADE_CUDNN
  if (!accumulate && rounds_once(bias, dx) &&
      cudnn::conv_backward_input(dy, weight, geometry, dx)) {
    const int64_t in = sizes.groups * sizes.in_channels;
    if (bias.present)
      add_channel_bias({dx.data, in * sizes.in_plane, sizes.in_plane}, dx.dtype, wide_bias,
                       {0, sizes.images, 0, sizes.in_plane}, dx);
    return;
  }
#endif
  backward_input_columns(sizes, call, wide_bias);
}

void backward_weight(const ConvBackwardWeight& call) {
  const auto& [x, dy, geometry, dweight, accumulate] = call;
  if (dweight.numel() == 0) return;
  if (dy.numel() == 0) {
    if (!accumulate) elementwise_kernels.fill(dweight, 0);
    return;
  }
  const memory::CategoryGuard guard(memory::Category::workspace);
  if (is_channels_last(x) || is_channels_last(dy)) return channels_last_backward_weight(call);
#ifdef BINADE_CUDNN
  if (!accumulate && cudnn::conv_backward_weight(x, dy, geometry, dweight)) return;
#endif
  backward_weight_columns(ConvSizes(x, dweight, dy, geometry), call);
}

}  // namespace

const ConvKernels conv_kernels{
    .forward = forward, .backward_input = backward_input, .backward_weight = backward_weight};

}  // namespace binade::backend::cuda
