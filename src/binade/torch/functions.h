#pragma once

#include <functional>
#include <memory>
#include <sstream>
#include <tuple>

#include "binade/autograd/anomaly.h"
#include "binade/autograd/grad.h"
#include "binade/base/parallel.h"
#include "binade/nn/init.h"
#include "binade/ops/conv/conv.h"
#include "binade/ops/conv/sample.h"
#include "binade/ops/index/count.h"
#include "binade/ops/libtorch_names.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/recompute.h"
#include "binade/ops/reduce/quantile.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/torch/function.h"
#include "binade/torch/functional.h"
#include "binade/torch/names.h"

// Functions whose arguments or meaning LibTorch has otherwise than Binade; all others are Binade's.
namespace binade::torch {

using namespace binade;  // NOLINT: torch::zeros is binade::zeros

// ---- tensors ----

inline TensorOptions dtype(DType type) { return type; }
inline TensorOptions device(binade::Device where) { return where; }
inline TensorOptions requires_grad(bool value = true) {
  return TensorOptions().requires_grad(value);
}

// Also from text, "cuda:1".
class Device : public binade::Device {
 public:
  Device() = default;
  Device(binade::Device device) : binade::Device(device) {}  // NOLINT: the same thing
  Device(binade::Device device, int at) : binade::Device{device.kind, at} {}
  Device(const char* text) : binade::Device(parse_device(text)) {}         // NOLINT: as LibTorch's
  Device(const std::string& text) : binade::Device(parse_device(text)) {}  // NOLINT

  std::string str() const { return to_string(*this); }
  binade::Device type() const { return {kind, 0}; }
  int index() const { return binade::Device::index; }
  bool has_index() const { return is_cuda(); }
};
// A device of any index: torch::kCUDA, torch::DeviceType::CUDA.
struct DeviceType : binade::Device {
  constexpr DeviceType(binade::Device device) : binade::Device(device.type()) {}  // NOLINT
  static const DeviceType CPU, CUDA;
};
inline constexpr DeviceType DeviceType::CPU = binade::Device::cpu();
inline constexpr DeviceType DeviceType::CUDA = binade::Device::cuda();
// No gradients are recorded, unless `enabled` is false.
struct InferenceMode : AutoGradMode {
  explicit InferenceMode(bool enabled = true)
      : AutoGradMode(!enabled && binade::GradMode::is_enabled()) {}
};
using ScalarType = DType;
using Dtype = DType;
using std::nullopt;
using std::optional;

// i64 of integers, bool of bools, else f32, unless a type is given.
using binade::full;
template <class T>
requires std::is_integral_v<T> Tensor full(const Shape& shape, T value) {
  return binade::full(shape, static_cast<double>(value), default_dtype<T>);
}
using binade::randint;
inline Tensor randint(int64_t high, const Shape& shape) { return binade::randint(0, high, shape); }
// With integers of another type or floats: torch::randint(10, {4}, torch::kInt).
Tensor randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options);
inline Tensor randint(int64_t high, const Shape& shape, const TensorOptions& options) {
  return randint(0, high, shape, options);
}
using binade::randperm;
Tensor randperm(int64_t count, const TensorOptions& options);
using binade::full_like;
using binade::ones_like;
using binade::zeros_like;
inline Tensor zeros_like(const Tensor& x, const TensorOptions& options) {
  return x.new_zeros(x.shape(), options);
}
inline Tensor ones_like(const Tensor& x, const TensorOptions& options) {
  return x.new_ones(x.shape(), options);
}
inline Tensor full_like(const Tensor& x, double value, const TensorOptions& options) {
  return options.applied(
      binade::full(x.shape(), value, options.dtype_or(x.dtype()), options.device_or(x.device())));
}
using binade::arange;
inline Tensor arange(int64_t end, const TensorOptions& options) {
  return options.applied(
      cast(binade::arange(end), options.dtype_or(DType::i64)).to(options.device()));
}
Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options = {});
// Of elements `strides` apart.
Tensor from_blob(void* data, const Shape& shape, const Shape& strides,
                 const TensorOptions& options = {});
// Memory that `free` is called for once no tensor uses it.
Tensor from_blob(void* data, const Shape& shape, const std::function<void(void*)>& free,
                 const TensorOptions& options = {});
inline Tensor scalar_tensor(Scalar value) { return binade::full({}, value.value(), DType::f32); }

// ---- elementwise ----

using binade::add;
using binade::sub;
inline Tensor add(const Tensor& a, const Tensor& b, Scalar alpha) { return a + b * alpha; }
inline Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha) { return a - b * alpha; }
using binade::pow;
Tensor pow(Scalar base, const Tensor& exponent);
using binade::max;
using binade::min;
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
using binade::where;
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
Tensor where(const Tensor& condition, Scalar a, Scalar b);
// The indices where the condition holds, a line for each axis.
std::vector<Tensor> where(const Tensor& condition);

// ---- reductions: of all elements without an axis ----

inline Tensor argmax(const Tensor& x) { return x.argmax(); }
inline Tensor argmin(const Tensor& x) { return x.argmin(); }
inline Tensor argmax(const Tensor& x, int64_t dim, bool keepdim = false) {
  return binade::argmax(x, dim, keepdim);
}
inline Tensor argmin(const Tensor& x, int64_t dim, bool keepdim = false) {
  return binade::argmin(x, dim, keepdim);
}
inline Tensor linalg_norm(const Tensor& x) { return norm(x); }
inline bool is_floating_point(const Tensor& x) { return x.is_floating_point(); }
using binade::argsort;
using binade::sort;
using binade::topk;
inline Order order_of(bool descending) { return descending ? Order::descending : Order::ascending; }
inline Sorted sort(const Tensor& x, int64_t dim, bool descending) {
  return binade::sort(x, dim, order_of(descending));
}
inline Tensor argsort(const Tensor& x, int64_t dim, bool descending) {
  return binade::argsort(x, dim, order_of(descending));
}
inline Sorted topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool sorted = true) {
  static_cast<void>(sorted);  // always
  return binade::topk(x, k, dim, order_of(largest));
}
// The different values, and with the flags the inverse and the counts.
std::tuple<Tensor, Tensor, Tensor> _unique2(const Tensor& x, bool sorted = true,
                                            bool return_inverse = false,
                                            bool return_counts = false);
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& x, bool return_inverse = false,
                                                      bool return_counts = false);

// ---- shapes ----

using binade::roll;
inline Tensor roll(const Tensor& x, int64_t shift, int64_t dim) {
  return binade::roll(x, {shift}, {dim});
}
inline Tensor broadcast_to(const Tensor& x, const Shape& shape) { return expand(x, shape); }

// ---- layers and losses ----

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Sizes stride = 1,
              Sizes padding = 0, Sizes dilation = 1, int64_t groups = 1);
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Sizes stride = 1,
              Sizes padding = 0, Sizes dilation = 1, int64_t groups = 1);
Tensor max_pool2d(const Tensor& x, Sizes kernel, Sizes stride = {}, Sizes padding = 0);
Tensor avg_pool2d(const Tensor& x, Sizes kernel, Sizes stride = {}, Sizes padding = 0,
                  bool ceil_mode = false, bool count_include_pad = true);
using binade::upsample_bilinear2d;
using binade::upsample_nearest2d;
inline Tensor upsample_nearest2d(const Tensor& x, const std::vector<int64_t>& size) {
  return nn::functional::interpolate(x, nn::UpsampleOptions().size(size));
}
inline Tensor upsample_bilinear2d(const Tensor& x, const std::vector<int64_t>& size,
                                  bool align_corners) {
  return nn::functional::interpolate(
      x, nn::UpsampleOptions().size(size).mode(kBilinear).align_corners(align_corners));
}
inline Tensor adaptive_avg_pool2d(const Tensor& x, Sizes size) {
  return nn::functional::adaptive_avg_pool2d(x, std::move(size));
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Sizes stride = 1,
              Sizes padding = 0, Sizes dilation = 1, int64_t groups = 1);
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        Sizes stride = 1, Sizes padding = 0, Sizes output_padding = 0,
                        int64_t groups = 1, Sizes dilation = 1);
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        Sizes stride = 1, Sizes padding = 0, Sizes output_padding = 0,
                        int64_t groups = 1, Sizes dilation = 1);
inline Tensor max_pool1d(const Tensor& x, Sizes kernel, Sizes stride = {}, Sizes padding = 0) {
  return nn::functional::max_pool1d(x, nn::MaxPool1dOptions(std::move(kernel))
                                           .stride(std::move(stride))
                                           .padding(std::move(padding)));
}
inline Tensor avg_pool1d(const Tensor& x, Sizes kernel, Sizes stride = {}, Sizes padding = 0) {
  return nn::functional::avg_pool1d(x, nn::AvgPool1dOptions(std::move(kernel))
                                           .stride(std::move(stride))
                                           .padding(std::move(padding)));
}
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var, bool training,
                  double momentum, double eps, bool cudnn_enabled = true);
using binade::instance_norm;
// By the statistics of each sample, without running ones.
Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& running_mean, const Tensor& running_var, bool use_input_stats,
                     double momentum, double eps, bool cudnn_enabled = true);
Tensor rms_norm(const Tensor& x, const std::vector<int64_t>& shape, const Tensor& weight = {},
                double eps = 0);
inline Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6) {
  return nn::functional::pairwise_distance(a, b, p, eps);
}
using binade::binary_cross_entropy;
inline Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   Reduce reduction = Reduce::mean) {
  return nn::functional::binary_cross_entropy(
      x, target, nn::BCELossOptions().weight(weight).reduction(reduction));
}
using binade::binary_cross_entropy_with_logits;
inline Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                               const Tensor& weight, const Tensor& pos_weight = {},
                                               Reduce reduction = Reduce::mean) {
  return nn::functional::binary_cross_entropy_with_logits(
      x, target,
      nn::BCEWithLogitsLossOptions().weight(weight).pos_weight(pos_weight).reduction(reduction));
}
inline Tensor multi_margin_loss(const Tensor& x, const Tensor& target, double p = 1,
                                double margin = 1, const Tensor& weight = {},
                                Reduce reduction = Reduce::mean) {
  return nn::functional::multi_margin_loss(
      x, target,
      nn::MultiMarginLossOptions().p(p).margin(margin).weight(weight).reduction(reduction));
}
Tensor layer_norm(const Tensor& x, const std::vector<int64_t>& shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
inline Tensor constant_pad_nd(const Tensor& x, const std::vector<int64_t>& padding,
                              double value = 0) {
  return pad(x, padding, {.mode = PadMode::constant, .value = value});
}
inline Tensor cross_entropy_loss(const Tensor& logits, const Tensor& target,
                                 const Tensor& weight = {}, Reduce reduction = Reduce::mean,
                                 int64_t ignore_index = -100, double label_smoothing = 0) {
  return nn::functional::cross_entropy(logits, target,
                                       nn::CrossEntropyLossOptions()
                                           .weight(weight)
                                           .reduction(reduction)
                                           .ignore_index(ignore_index)
                                           .label_smoothing(label_smoothing));
}
inline Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                       Reduce reduction = Reduce::mean, int64_t ignore_index = -100) {
  return nn::functional::nll_loss(
      x, target,
      nn::NLLLossOptions().weight(weight).reduction(reduction).ignore_index(ignore_index));
}

// ---- autograd ----

namespace autograd {
using namespace binade::autograd;

// The gradients of the outputs with respect to the inputs. create_graph is refused.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {},
                         std::optional<bool> retain_graph = {}, bool create_graph = false,
                         bool allow_unused = false);
void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& grad_outputs = {},
              std::optional<bool> retain_graph = {}, bool create_graph = false);

using DetectAnomalyGuard = binade::autograd::DetectAnomaly;
using GradMode = binade::GradMode;
}  // namespace autograd

// checkpoint(f, x, ...) with tensors as arguments.
using binade::checkpoint;
template <class F, std::same_as<Tensor>... Inputs>
requires(sizeof...(Inputs) > 0 && std::invocable<F, Inputs...>) Tensor
    checkpoint(F f, const Inputs&... inputs) {
  return binade::checkpoint(
      [f](std::span<const Tensor> given) {
        return [&]<size_t... i>(std::index_sequence<i...>) { return f(given[i]...); }
        (std::index_sequence_for<Inputs...>());
      },
      {inputs...});
}

// ---- names ----

namespace indexing {
using binade::Ellipsis;
using binade::None;
using binade::Slice;
using TensorIndex = binade::IndexEntry;
}  // namespace indexing

inline void set_num_threads(int count) { set_threads(count); }
inline int get_num_threads() { return threads(); }

namespace cuda {
bool is_available();
size_t device_count();
void synchronize();
inline void manual_seed(uint64_t seed) { binade::manual_seed(seed); }
inline void manual_seed_all(uint64_t seed) { binade::manual_seed(seed); }
}  // namespace cuda

namespace linalg {
inline Tensor norm(const Tensor& x) { return binade::norm(x); }
inline Tensor vector_norm(const Tensor& x, double p = 2, const Axes& dim = {},
                          bool keepdim = false) {
  return binade::norm(x, p, dim, keepdim);
}
inline Tensor cross(const Tensor& a, const Tensor& b, int64_t dim = -1) {
  return binade::cross(a, b, dim);
}
inline Tensor matrix_power(const Tensor& x, int64_t n) { return torch::matrix_power(x, n); }
}  // namespace linalg
inline Tensor linalg_vector_norm(const Tensor& x, double p = 2, const Axes& dim = {},
                                 bool keepdim = false) {
  return binade::norm(x, p, dim, keepdim);
}

namespace nn {
namespace init {
// binade::nn::init's functions, which here return the tensor.
Tensor constant_(Tensor x, double value);
Tensor zeros_(Tensor x);
Tensor ones_(Tensor x);
Tensor eye_(Tensor x);
Tensor uniform_(Tensor x, double low = 0, double high = 1);
Tensor normal_(Tensor x, double mean = 0, double deviation = 1);
Tensor trunc_normal_(Tensor x, double mean = 0, double deviation = 1, double low = -2,
                     double high = 2);
Tensor xavier_uniform_(Tensor x, double gain = 1);
Tensor xavier_normal_(Tensor x, double gain = 1);
Tensor kaiming_uniform_(Tensor x, double slope = 0, FanMode mode = kFanIn,
                        Nonlinearity nonlinearity = kLeakyReLU);
Tensor kaiming_normal_(Tensor x, double slope = 0, FanMode mode = kFanIn,
                       Nonlinearity nonlinearity = kLeakyReLU);
inline double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01) {
  return binade::nn::init::gain(nonlinearity, slope);
}
Tensor orthogonal_(Tensor x, double gain = 1);
}  // namespace init

namespace utils {
// Scales the gradients to a norm of at most max_norm; returns the norm before.
// `error_if_nonfinite` refuses a norm that is no number.
double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double p = 2,
                       bool error_if_nonfinite = false);
double clip_grad_norm_(const Tensor& parameter, double max_norm, double p = 2,
                       bool error_if_nonfinite = false);
void clip_grad_value_(const std::vector<Tensor>& parameters, double limit);
void clip_grad_value_(const Tensor& parameter, double limit);
// All parameters as one line, and back.
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
void vector_to_parameters(const Tensor& line, const std::vector<Tensor>& parameters);

namespace rnn {
// Sequences of different lengths [time, ...] as one tensor [time, batch, ...], or batch first.
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false,
                    double value = 0);
}  // namespace rnn
}  // namespace utils
}  // namespace nn
}  // namespace binade::torch

// LibTorch's other namespaces, for programs that write namespace at = binade::at and namespace c10
// = binade::c10.
namespace binade::at {
using namespace binade::torch;  // NOLINT
}  // namespace binade::at

namespace binade::c10 {
using namespace binade::torch;  // NOLINT
using binade::Error;
template <class T>
using ArrayRef = std::span<const T>;
}  // namespace binade::c10

// TORCH_CHECK(x.dim() == 2, "expected a matrix, got ", x.sizes());
namespace binade::torch {
template <class... Parts>
[[noreturn]] void refuse_check(const char* condition, const Parts&... parts) {
  std::ostringstream message;
  message << "false";
  if constexpr (sizeof...(parts) > 0) ((message << ": ") << ... << parts);
  fail("TORCH_CHECK", {.argument = condition, .expected = "true", .found = message.str()});
}
}  // namespace binade::torch
#ifndef TORCH_CHECK
#define TORCH_CHECK(condition, ...) \
  if (!(condition)) ::binade::torch::refuse_check(#condition __VA_OPT__(, ) __VA_ARGS__)
#endif
