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
Tensor max_pool2d(const Tensor& x, Sizes kernel, Sizes stride, Sizes padding) {
  return nn::functional::max_pool2d(x, nn::MaxPool2dOptions(std::move(kernel))
                                           .stride(std::move(stride))
                                           .padding(std::move(padding)));
}
Tensor avg_pool2d(const Tensor& x, Sizes kernel, Sizes stride, Sizes padding) {
  return nn::functional::avg_pool2d(x, nn::AvgPool2dOptions(std::move(kernel))
                                           .stride(std::move(stride))
                                           .padding(std::move(padding)));
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
Tensor kaiming_uniform_(Tensor x, double slope) {
  binade::nn::init::kaiming_uniform_(x, {.slope = slope});
  return x;
}
Tensor kaiming_normal_(Tensor x, double slope) {
  binade::nn::init::kaiming_normal_(x, {.slope = slope});
  return x;
}
Tensor orthogonal_(Tensor x, double gain) {
  binade::nn::init::orthogonal_(x, gain);
  return x;
}

}  // namespace init

namespace utils {

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double p) {
  return optim::clip_grad_norm(parameters, max_norm, p).item();
}
double clip_grad_norm_(const Tensor& parameter, double max_norm, double p) {
  return clip_grad_norm_(std::vector{parameter}, max_norm, p);
}
void clip_grad_value_(const std::vector<Tensor>& parameters, double limit) {
  optim::clip_grad_value(parameters, limit);
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
