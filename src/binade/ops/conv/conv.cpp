#include "binade/ops/conv/conv.h"

#include <algorithm>
#include <array>
#include <limits>

#include "binade/base/division.h"
#include "binade/ops/common.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;
using Triple = std::array<int64_t, 3>;

// Values per axis for the kernels, which have three spatial axes: missing ones in front get
// `filler`.
Triple spread(std::string_view op, std::string_view argument, const PerAxis& values, int axes,
              int64_t filler, int64_t least) {
  if (values.size() != 1 && static_cast<int>(values.size()) != axes) {
    fail(op, {.argument = std::string(argument),
              .expected = "one number or " + std::to_string(axes),
              .found = std::to_string(values.size())});
  }
  Triple result{filler, filler, filler};
  for (int i = 0; i < axes; ++i) {
    const int64_t value = values[values.size() == 1 ? 0 : static_cast<size_t>(i)];
    // Larger values would overflow.
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    if (value < least || value > most) {
      fail(op, {.argument = std::string(argument),
                .expected = std::to_string(least) + " to " + std::to_string(most),
                .found = std::to_string(value)});
    }
    const int axis = 3 - axes + i;
    result[static_cast<size_t>(axis)] = value;
  }
  return result;
}

Tensor as_3d(const Tensor& x, MemoryFormat format = MemoryFormat::row_major) {
  Shape shape = x.shape();
  while (shape.rank() < 5) shape.insert(2, 1);
  return viewed(in_format(x, format), shape, format);
}

// From three spatial axes back to the caller's.
Shape without_fillers(const Shape& shape, int axes) {
  Shape result = shape;
  for (int i = axes; i < 3; ++i) result.erase(2);
  return result;
}

enum class Direction : uint8_t { forward, transposed };

// The tensor arguments of a convolution.
struct ConvInputs {
  const Tensor &x, &weight, &bias;
};

void check_conv(std::string_view op, const ConvInputs& inputs, int axes, int64_t groups,
                Direction direction) {
  const auto& [x, weight, bias] = inputs;
  const bool transposed = direction == Direction::transposed;
  require_compute(op, "x", x);
  require_compute(op, "weight", weight);
  require_rank(op, "x", x, axes + 2);
  require_rank(op, "weight", weight, axes + 2);
  const int64_t in = x.size(1);
  if (groups < 1 || groups > std::max<int64_t>(in, 1)) {
    fail(op, {.argument = "groups",
              .expected = "1 to the channels of " + describe(x),
              .found = std::to_string(groups)});
  }
  const bool divisible = in % groups == 0 && (transposed || weight.size(0) % groups == 0);
  if (!divisible || (transposed ? weight.size(0) != in : weight.size(1) != in / groups)) {
    fail(op, {.argument = "weight",
              .expected = "channels that fit x and " + std::to_string(groups) + " groups",
              .found = describe(weight) + " for x " + describe(x)});
  }
  if (std::any_of(weight.shape().begin() + 2, weight.shape().end(),
                  [](int64_t size) { return size == 0; })) {
    fail(op,
         {.argument = "weight", .expected = "a kernel of at least 1", .found = describe(weight)});
  }
  if (!bias.defined()) return;
  require_compute(op, "bias", bias);
  require_shape(op, "bias", bias, {transposed ? weight.size(1) * groups : weight.size(0)});
}

void require_positive(std::string_view op, const Shape& shape, const Tensor& x,
                      const Tensor& weight) {
  if (std::all_of(shape.begin() + 2, shape.end(), [](int64_t size) { return size > 0; })) return;
  fail(op, {.argument = "x",
            .expected = "at least as large as the kernel",
            .found = describe(x) + " for weight " + describe(weight)});
}

// Calls write(dx, accumulate) with a buffer for the gradient of an input that has `shape` with
// three spatial axes.
template <class F>
void write_gradient(const GradSlot& slot, const Shape& shape, MemoryFormat format, F write) {
  if (!slot.needs_grad()) return;
  const bool is_leaf = slot.meta()->node == nullptr;
  if (format == MemoryFormat::row_major || !is_leaf) {
    const auto [buffer, accumulate] = slot.target(format);
    write(viewed(buffer, shape, format), accumulate);
    return;
  }
  const Tensor gradient = empty(shape, slot.gradient_dtype(), slot.meta()->device, format);
  write(gradient, false);
  slot.add(viewed(gradient, slot.shape(), format));
}

// Sums the gradient of a convolution's result over all axes but the channels.
void add_bias_gradient(const GradSlot& slot, const Tensor& dy) {
  if (!slot.needs_grad()) return;
  const auto [buffer, accumulate] = slot.target();
  Shape kept = Shape::filled(dy.rank(), 1);
  kept[1] = dy.size(1);
  backend::of(dy).reduce.reduce(backend::Reduction::sum, dy, {viewed(buffer, kept), accumulate});
}

Tensor conv(Op op, int axes, const Tensor& x, const Tensor& weight, const Tensor& bias,
            const ConvOptions& options) {
  check_conv(name(op), {x, weight, bias}, axes, options.groups, Direction::forward);
  const Call call(op, {x, weight, bias});
  require_same_dtype(name(op), call[0], call[1]);
  const backend::ConvGeometry geometry{
      .stride = spread(name(op), "stride", options.stride, axes, 1, 1),
      .padding = spread(name(op), "padding", options.padding, axes, 0, 0),
      .dilation = spread(name(op), "dilation", options.dilation, axes, 1, 1),
      .groups = options.groups};
  const MemoryFormat format = native_format(call[0]);
  const Tensor in = as_3d(call[0], format), kernel = as_3d(call[1]);
  Shape shape = in.shape();
  shape[1] = kernel.size(0);
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t window = geometry.dilation[at] * (kernel.size(2 + i) - 1) + 1;
    const int64_t slack = in.size(2 + i) + 2 * geometry.padding[at] - window;
    shape[2 + i] = slack < 0 ? 0 : slack / geometry.stride[at] + 1;
  }
  require_positive(name(op), shape, x, weight);
  const Tensor y = empty(shape, in.dtype(), in.device(), format);
  backend::of(in).conv.forward(
      {.x = in, .weight = kernel, .bias = dense(call[2]), .geometry = geometry, .y = y});
  return call.result(viewed(y, without_fillers(shape, axes), format),
                     [=, in_shape = in.shape(), in = SavedInput(call[0], in),
                      kernel = Saved(kernel)](const Tensor& dy_given, GradSlots dx) {
                       const Tensor dy = viewed(in_format(dy_given, format), shape, format);
                       const auto& kernels = backend::of(dy).conv;
                       write_gradient(dx[0], in_shape, format,
                                      [&](const Tensor& buffer, bool accumulate) {
                                        kernels.backward_input({.dy = dy,
                                                                .weight = kernel,
                                                                .geometry = geometry,
                                                                .dx = buffer,
                                                                .accumulate = accumulate});
                                      });
                       if (dx[1].needs_grad()) {
                         const Tensor x = in.get(dx[0]);
                         const auto [buffer, accumulate] = dx[1].target();
                         kernels.backward_weight({.x = x,
                                                  .dy = dy,
                                                  .geometry = geometry,
                                                  .dweight = viewed(buffer, kernel->shape()),
                                                  .accumulate = accumulate});
                       }
                       add_bias_gradient(dx[2], dy);
                     });
}

Tensor conv_transpose(Op op, int axes, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions& options) {
  check_conv(name(op), {x, weight, bias}, axes, options.groups, Direction::transposed);
  const Call call(op, {x, weight, bias});
  require_same_dtype(name(op), call[0], call[1]);
  const backend::ConvGeometry geometry{
      .stride = spread(name(op), "stride", options.stride, axes, 1, 1),
      .padding = spread(name(op), "padding", options.padding, axes, 0, 0),
      .dilation = spread(name(op), "dilation", options.dilation, axes, 1, 1),
      .groups = options.groups};
  const Triple extra = spread(name(op), "output_padding", options.output_padding, axes, 0, 0);
  const Tensor in = as_3d(call[0]), kernel = as_3d(call[1]);
  Shape shape = in.shape();
  shape[1] = kernel.size(1) * options.groups;
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    if (extra[at] >= std::max(geometry.stride[at], geometry.dilation[at]) && extra[at] > 0) {
      fail(name(op), {.argument = "output_padding",
                      .expected = "less than stride or dilation",
                      .found = std::to_string(extra[at])});
    }
    shape[2 + i] = (in.size(2 + i) - 1) * geometry.stride[at] - 2 * geometry.padding[at] +
                   geometry.dilation[at] * (kernel.size(2 + i) - 1) + extra[at] + 1;
  }
  require_positive(name(op), shape, x, weight);
  const Tensor y = Tensor::empty(shape, in.dtype(), in.device());
  backend::of(in).conv.backward_input(
      {.dy = in, .weight = kernel, .bias = dense(call[2]), .geometry = geometry, .dx = y});
  return call.result(
      viewed(y, without_fillers(shape, axes)),
      [=, in = Saved(in), kernel = Saved(kernel)](const Tensor& dy_given, GradSlots dx) {
        const Tensor dy = viewed(dense(dy_given), shape);
        const auto& kernels = backend::of(dy).conv;
        if (dx[0].needs_grad()) {
          const Tensor gradient = Tensor::empty_like(in.get());
          kernels.forward({.x = dy, .weight = kernel, .geometry = geometry, .y = gradient});
          dx[0].add(viewed(gradient, dx[0].shape()));
        }
        if (dx[1].needs_grad()) {
          const auto [buffer, accumulate] = dx[1].target();
          kernels.backward_weight({.x = dy,
                                   .dy = in,
                                   .geometry = geometry,
                                   .dweight = viewed(buffer, kernel->shape()),
                                   .accumulate = accumulate});
        }
        add_bias_gradient(dx[2], dy);
      });
}

struct PoolPlan {
  backend::PoolGeometry geometry;
  Tensor in;
  Shape shape;
  int axes;
};

PoolPlan plan_pool(Op op, const Tensor& x, const Tensor& given, const PoolOptions& options,
                   MemoryFormat format = MemoryFormat::row_major) {
  require_compute(name(op), "x", given);
  const int axes = given.rank() - 2;
  if (axes < 1 || axes > 3)
    fail(name(op),
         {.argument = "x", .expected = "[n, c, 1 to 3 spatial axes]", .found = describe(given)});
  PoolPlan plan{{}, as_3d(x, format), {}, axes};
  plan.geometry.kernel = spread(name(op), "kernel", options.kernel, axes, 1, 1);
  plan.geometry.stride = options.stride.empty()
                             ? plan.geometry.kernel
                             : spread(name(op), "stride", options.stride, axes, 1, 1);
  plan.geometry.padding = spread(name(op), "padding", options.padding, axes, 0, 0);
  plan.geometry.count_padding = options.count_padding;
  plan.shape = plan.in.shape();
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t slack =
        plan.in.size(2 + i) + 2 * plan.geometry.padding[at] - plan.geometry.kernel[at];
    if (slack < 0 || 2 * plan.geometry.padding[at] > plan.geometry.kernel[at]) {
      fail(name(op), {.argument = "kernel",
                      .expected = "one that fits x, padding at most half of it",
                      .found = describe(given)});
    }
    const int64_t stride = plan.geometry.stride[at];
    int64_t windows = (options.ceil_mode ? divide_up(slack, stride) : slack / stride) + 1;
    if ((windows - 1) * stride >= plan.in.size(2 + i) + plan.geometry.padding[at]) --windows;
    plan.shape[2 + i] = windows;
  }
  return plan;
}

int64_t taps_of(const backend::PoolGeometry& geometry) {
  return geometry.kernel[0] * geometry.kernel[1] * geometry.kernel[2];
}

// Positions in a window are saved as bytes.
constexpr int64_t max_channels_last_taps = 255;

Tensor channels_last_max_pool(const Call& call, const PoolPlan& plan) {
  constexpr MemoryFormat format = MemoryFormat::channels_last;
  const Device device = plan.in.device();
  const Tensor y = empty(plan.shape, plan.in.dtype(), device, format);
  const Tensor choice = empty(plan.shape, DType::u8, device, format);
  backend::of(device).pool.channels_last_max_forward(plan.in, plan.geometry, y, choice);
  return call.result(viewed(y, without_fillers(plan.shape, plan.axes), format),
                     [choice, geometry = plan.geometry, shape = plan.shape, in = plan.in.shape()](
                         const Tensor& dy, GradSlots dx) {
                       const Tensor gradient = empty(in, dy.dtype(), dy.device(), format);
                       backend::of(dy).pool.channels_last_max_backward(
                           viewed(in_format(dy, format), shape, format), choice, geometry,
                           gradient);
                       dx[0].add(viewed(gradient, dx[0].shape(), format));
                     });
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions& options) {
  return conv(Op::conv1d, 1, x, weight, bias, options);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions& options) {
  return conv(Op::conv2d, 2, x, weight, bias, options);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions& options) {
  return conv(Op::conv3d, 3, x, weight, bias, options);
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return conv_transpose(Op::conv_transpose1d, 1, x, weight, bias, options);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return conv_transpose(Op::conv_transpose2d, 2, x, weight, bias, options);
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return conv_transpose(Op::conv_transpose3d, 3, x, weight, bias, options);
}

Tensor max_pool(const Tensor& x, const PoolOptions& options) {
  require_defined("max_pool", "x", x);
  const Call call(Op::max_pool, {x});
  if (native_format(call[0]) == MemoryFormat::channels_last) {
    const PoolPlan plan = plan_pool(Op::max_pool, call[0], x, options, MemoryFormat::channels_last);
    if (taps_of(plan.geometry) <= max_channels_last_taps) return channels_last_max_pool(call, plan);
  }
  const PoolPlan plan = plan_pool(Op::max_pool, call[0], x, options);
  const Tensor y = Tensor::empty(plan.shape, plan.in.dtype(), x.device());
  const Tensor index = Tensor::empty(plan.shape, DType::i64, x.device());
  backend::of(x).pool.max_forward(plan.in, plan.geometry, y, index);
  return call.result(
      viewed(y, without_fillers(plan.shape, plan.axes)),
      [index, shape = plan.shape, in = plan.in.shape()](const Tensor& dy, GradSlots dx) {
        const Tensor gradient = Tensor::empty(in, dy.dtype(), dy.device());
        backend::of(dy).pool.max_backward(viewed(dense(dy), shape), index, gradient);
        dx[0].add(viewed(gradient, dx[0].shape()));
      });
}

Tensor avg_pool(const Tensor& x, const PoolOptions& options) {
  require_defined("avg_pool", "x", x);
  const Call call(Op::avg_pool, {x});
  const PoolPlan plan = plan_pool(Op::avg_pool, call[0], x, options);
  const Tensor y = Tensor::empty(plan.shape, plan.in.dtype(), x.device());
  backend::of(x).pool.average_forward(plan.in, plan.geometry, y);
  return call.result(viewed(y, without_fillers(plan.shape, plan.axes)),
                     [geometry = plan.geometry, shape = plan.shape, in = plan.in.shape()](
                         const Tensor& dy, GradSlots dx) {
                       const Tensor gradient = Tensor::empty(in, dy.dtype(), dy.device());
                       backend::of(dy).pool.average_backward(viewed(dense(dy), shape), geometry,
                                                             gradient);
                       dx[0].add(viewed(gradient, dx[0].shape()));
                     });
}

Tensor global_avg_pool(const Tensor& x) {
  require_compute("global_avg_pool", "x", x);
  if (x.rank() < 3)
    fail("global_avg_pool",
         {.argument = "x", .expected = "[n, c, spatial...]", .found = describe(x)});
  Axes axes;
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  if (native_format(x) == MemoryFormat::row_major) return mean(x, axes, true);
  // The mean is taken with the channels as the last axis, so that the gradient is channels-last.
  Axes order{0}, spatial;
  for (const int64_t axis : axes) {
    order.push_back(axis);
    spatial.push_back(axis - 1);
  }
  order.push_back(1);
  Shape shape = Shape::filled(x.rank(), 1);
  shape[0] = x.size(0);
  shape[1] = x.size(1);
  return reshape(mean(permute(x, order), spatial), shape);
}

}  // namespace binade
