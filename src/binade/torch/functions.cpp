#include "binade/torch/functions.h"

#include <algorithm>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/gpu.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/dlpack.h"
#include "binade/ops/shape/pad.h"
#include "binade/optim/clip.h"

namespace binade::torch {

Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options) {
  return options.applied(binade::from_blob(data, shape, options.dtype(), options.device()));
}

Tensor from_blob(void* data, const Shape& shape, const Shape& strides,
                 const TensorOptions& options) {
  int64_t last = shape.numel() == 0 ? -1 : 0;
  for (int i = 0; i < shape.rank() && last >= 0; ++i) last += (shape[i] - 1) * strides[i];
  const Tensor line = binade::from_blob(data, {last + 1}, options.dtype(), options.device());
  return options.applied(line.strided(shape, strides, 0));
}

Tensor from_blob(void* data, const Shape& shape, const std::function<void(void*)>& free,
                 const TensorOptions& options) {
  return options.applied(binade::from_blob(data, shape, options.dtype(), options.device(),
                                           [data, free] { free(data); }));
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options) {
  const Tensor drawn = binade::randint(low, high, shape, options.device());
  return options.applied(cast(drawn, options.dtype_or(DType::i64)));
}

Tensor randperm(int64_t count, const TensorOptions& options) {
  return options.applied(
      cast(binade::randperm(count).to(options.device()), options.dtype_or(DType::i64)));
}

Tensor pow(Scalar base, const Tensor& exponent) {
  const bool is_whole = base.is_integer() && !is_floating(exponent.dtype());
  const DType dtype = is_floating(exponent.dtype()) ? exponent.dtype()
                      : is_whole                    ? exponent.dtype()
                                                    : DType::f32;
  return binade::pow(binade::full({}, base.value(), dtype, exponent.device()), exponent);
}

Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  return binade::where(condition, a, binade::full({}, b.value(), a.dtype(), a.device()));
}
Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  return binade::where(condition, binade::full({}, a.value(), b.dtype(), b.device()), b);
}

Tensor where(const Tensor& condition, Scalar a, Scalar b) {
  const bool whole = a.is_integer() && b.is_integer();
  return where(condition,
               binade::full({}, a.value(), whole ? DType::i64 : DType::f32, condition.device()), b);
}
std::vector<Tensor> where(const Tensor& condition) { return unbind(nonzero(condition), 1); }

std::tuple<Tensor, Tensor, Tensor> _unique2(const Tensor& x, bool, bool return_inverse,
                                            bool return_counts) {
  const Unique found = unique(x, {.inverse = return_inverse, .counts = return_counts});
  return {found.values, found.inverse, found.counts};
}

std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& x, bool return_inverse,
                                                      bool return_counts) {
  const Unique found =
      binade::unique_consecutive(x, {.inverse = return_inverse, .counts = return_counts});
  return {found.values, found.inverse, found.counts};
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Sizes stride,
              Sizes padding, Sizes dilation, int64_t groups) {
  return binade::conv1d(x, weight, bias,
                        {.stride = std::move(stride),
                         .padding = std::move(padding),
                         .dilation = std::move(dilation),
                         .groups = groups});
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Sizes stride,
              Sizes padding, Sizes dilation, int64_t groups) {
  return binade::conv2d(x, weight, bias,
                        {.stride = std::move(stride),
                         .padding = std::move(padding),
                         .dilation = std::move(dilation),
                         .groups = groups});
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, Sizes stride,
              Sizes padding, Sizes dilation, int64_t groups) {
  return binade::conv3d(x, weight, bias,
                        {.stride = std::move(stride),
                         .padding = std::move(padding),
                         .dilation = std::move(dilation),
                         .groups = groups});
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Sizes stride,
                        Sizes padding, Sizes output_padding, int64_t groups, Sizes dilation) {
  return binade::conv_transpose1d(x, weight, bias,
                                  {.stride = std::move(stride),
                                   .padding = std::move(padding),
                                   .output_padding = std::move(output_padding),
                                   .dilation = std::move(dilation),
                                   .groups = groups});
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Sizes stride,
                        Sizes padding, Sizes output_padding, int64_t groups, Sizes dilation) {
  return binade::conv_transpose2d(x, weight, bias,
                                  {.stride = std::move(stride),
                                   .padding = std::move(padding),
                                   .output_padding = std::move(output_padding),
                                   .dilation = std::move(dilation),
                                   .groups = groups});
}
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var, bool training,
                  double momentum, double eps, bool) {
  return binade::batch_norm(x, weight, bias, running_mean, running_var,
                            {.training = training, .momentum = momentum, .eps = eps});
}
Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& running_mean, const Tensor& running_var, bool use_input_stats,
                     double, double eps, bool) {
  if (running_mean.defined() || running_var.defined() || !use_input_stats) {
    fail("instance_norm", {.argument = "running_mean, use_input_stats",
                           .expected = "no running statistics",
                           .found = use_input_stats ? "some" : "use_input_stats = false"});
  }
  return binade::instance_norm(x, weight, bias, eps);
}
Tensor rms_norm(const Tensor& x, const std::vector<int64_t>& shape, const Tensor& weight,
                double eps) {
  if (shape.size() != 1 || x.rank() == 0 || shape[0] != x.size(-1)) {
    fail("rms_norm", {.argument = "normalized_shape",
                      .expected = "the last axis of " + describe(x),
                      .found = to_string(Shape(shape))});
  }
  return binade::rms_norm(x, weight, eps);
}
Tensor max_pool2d(const Tensor& x, Sizes kernel, Sizes stride, Sizes padding) {
  return nn::functional::max_pool2d(x, nn::MaxPool2dOptions(std::move(kernel))
                                           .stride(std::move(stride))
                                           .padding(std::move(padding)));
}
Tensor avg_pool2d(const Tensor& x, Sizes kernel, Sizes stride, Sizes padding, bool ceil_mode,
                  bool count_include_pad) {
  return nn::functional::avg_pool2d(x, nn::AvgPool2dOptions(std::move(kernel))
                                           .stride(std::move(stride))
                                           .padding(std::move(padding))
                                           .ceil_mode(ceil_mode)
                                           .count_include_pad(count_include_pad));
}
Tensor layer_norm(const Tensor& x, const std::vector<int64_t>& shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  return nn::functional::layer_norm(
      x, nn::functional::LayerNormFuncOptions(shape).weight(weight).bias(bias).eps(eps));
}

namespace autograd {

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, std::optional<bool> retain_graph,
                         bool create_graph, bool allow_unused) {
  return binade::autograd::grad(
      outputs, inputs,
      {.seeds = grad_outputs,
       .retain = retain_graph.value_or(create_graph) ? RetainGraph::yes : RetainGraph::no,
       .allow_unused = allow_unused,
       .create_graph = create_graph});
}

void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& grad_outputs,
              std::optional<bool> retain_graph, bool create_graph) {
  if (create_graph)
    fail("backward", {.argument = "create_graph", .expected = "false", .found = "true"});
  for (size_t i = 0; i < outputs.size(); ++i) {
    // Graphs of several outputs may share parts, which the last one frees.
    const bool keeps = retain_graph.value_or(false) || i + 1 < outputs.size();
    outputs[i].backward(i < grad_outputs.size() ? grad_outputs[i] : Tensor(),
                        keeps ? RetainGraph::yes : RetainGraph::no);
  }
}

}  // namespace autograd

namespace cuda {
bool is_available() { return !backend::gpus().empty(); }
size_t device_count() { return backend::gpus().size(); }
void synchronize() {
  for (size_t i = 0; i < device_count(); ++i)
    backend::synchronize(binade::Device::cuda(static_cast<int>(i)));
}
}  // namespace cuda

namespace nn {
namespace init {

Tensor constant_(Tensor x, double value) {
  binade::nn::init::constant_(x, value);
  return x;
}
Tensor zeros_(Tensor x) { return constant_(std::move(x), 0); }
Tensor ones_(Tensor x) { return constant_(std::move(x), 1); }
Tensor eye_(Tensor x) {
  binade::nn::init::eye_(x);
  return x;
}
Tensor uniform_(Tensor x, double low, double high) {
  binade::nn::init::uniform_(x, low, high);
  return x;
}
Tensor normal_(Tensor x, double mean, double deviation) {
  binade::nn::init::normal_(x, mean, deviation);
  return x;
}
Tensor xavier_uniform_(Tensor x, double gain) {
  binade::nn::init::xavier_uniform_(x, gain);
  return x;
}
Tensor xavier_normal_(Tensor x, double gain) {
  binade::nn::init::xavier_normal_(x, gain);
  return x;
}
Tensor trunc_normal_(Tensor x, double mean, double deviation, double low, double high) {
  binade::nn::init::trunc_normal_(x,
                                  {.mean = mean, .deviation = deviation, .low = low, .high = high});
  return x;
}
Tensor kaiming_uniform_(Tensor x, double slope, FanMode mode, Nonlinearity nonlinearity) {
  binade::nn::init::kaiming_uniform_(x,
                                     {.slope = slope, .fan = mode, .nonlinearity = nonlinearity});
  return x;
}
Tensor kaiming_normal_(Tensor x, double slope, FanMode mode, Nonlinearity nonlinearity) {
  binade::nn::init::kaiming_normal_(x, {.slope = slope, .fan = mode, .nonlinearity = nonlinearity});
  return x;
}
Tensor orthogonal_(Tensor x, double gain) {
  binade::nn::init::orthogonal_(x, gain);
  return x;
}

}  // namespace init

namespace utils {

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double p,
                       bool error_if_nonfinite) {
  if (error_if_nonfinite) {
    for (const Tensor& one : parameters) {
      if (!one.grad().defined() || is_finite(one.grad()).all().item() != 0) continue;
      fail("clip_grad_norm_", {.argument = "parameters",
                               .expected = "finite gradients",
                               .found = "infinite or NaN ones of " + describe(one)});
    }
  }
  return optim::clip_grad_norm(parameters, max_norm, p).item();
}
double clip_grad_norm_(const Tensor& parameter, double max_norm, double p,
                       bool error_if_nonfinite) {
  return clip_grad_norm_(std::vector{parameter}, max_norm, p, error_if_nonfinite);
}
void clip_grad_value_(const std::vector<Tensor>& parameters, double limit) {
  optim::clip_grad_value(parameters, limit);
}
void clip_grad_value_(const Tensor& parameter, double limit) {
  clip_grad_value_(std::vector{parameter}, limit);
}

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> lines;
  for (const Tensor& parameter : parameters) lines.push_back(reshape(parameter, {-1}));
  return cat(lines, 0);
}

void vector_to_parameters(const Tensor& line, const std::vector<Tensor>& parameters) {
  const NoGrad no_grad;
  int64_t begin = 0;
  for (const Tensor& parameter : parameters) {
    const int64_t end = begin + parameter.numel();
    if (line.rank() != 1 || end > line.numel()) {
      fail("vector_to_parameters", {.argument = "line",
                                    .expected = "at least " + std::to_string(end) + " elements",
                                    .found = describe(line)});
    }
    copy_(parameter, reshape(slice(line, 0, begin, end), parameter.shape()));
    begin = end;
  }
}

namespace rnn {

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double value) {
  if (sequences.empty())
    fail("pad_sequence", {.argument = "sequences", .expected = "at least one", .found = "none"});
  int64_t longest = 0;
  for (const Tensor& one : sequences) longest = std::max(longest, one.size(0));
  std::vector<Tensor> padded;
  for (const Tensor& one : sequences) {
    Shape shape = one.shape();
    shape[0] = longest - one.size(0);
    padded.push_back(cat({one, binade::full(shape, value, one.dtype(), one.device())}, 0));
  }
  return stack(padded, batch_first ? 0 : 1);
}

}  // namespace rnn
}  // namespace utils
}  // namespace nn
}  // namespace binade::torch
