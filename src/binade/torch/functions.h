#pragma once

#include <tuple>

#include "binade/autograd/anomaly.h"
#include "binade/autograd/grad.h"
#include "binade/base/parallel.h"
#include "binade/nn/init.h"
#include "binade/ops/conv/conv.h"
#include "binade/ops/index/count.h"
#include "binade/ops/libtorch_names.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/recompute.h"
#include "binade/ops/reduce/quantile.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/torch/function.h"
#include "binade/torch/functional.h"

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
  Device(binade::Device device) : binade::Device(device) {}  // NOLINT: the same thing
  Device(binade::Device device, int at) : binade::Device{device.kind, at} {}
  Device(const char* text) : binade::Device(parse_device(text)) {}         // NOLINT: as LibTorch's
  Device(const std::string& text) : binade::Device(parse_device(text)) {}  // NOLINT

  std::string str() const { return to_string(*this); }
  binade::Device type() const { return {kind, 0}; }
  int index() const { return binade::Device::index; }
  bool has_index() const { return is_cuda(); }
};
using DeviceType = binade::Device;

// i64 of integers, bool of bools, else f32, unless a type is given.
using binade::full;
template <class T>
requires std::is_integral_v<T> Tensor full(const Shape& shape, T value) {
  return binade::full(shape, static_cast<double>(value), default_dtype<T>);
}
using binade::randint;
inline Tensor randint(int64_t high, const Shape& shape) { return binade::randint(0, high, shape); }
Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options = {});
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
Tensor avg_pool2d(const Tensor& x, Sizes kernel, Sizes stride = {}, Sizes padding = 0);
inline Tensor adaptive_avg_pool2d(const Tensor& x, Sizes size) {
  return nn::functional::adaptive_avg_pool2d(x, std::move(size));
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
}  // namespace cuda

namespace nn {
namespace init {
// binade::nn::init's functions, which here return the tensor.
Tensor constant_(Tensor x, double value);
Tensor zeros_(Tensor x);
Tensor ones_(Tensor x);
Tensor eye_(Tensor x);
Tensor uniform_(Tensor x, double low = 0, double high = 1);
Tensor normal_(Tensor x, double mean = 0, double deviation = 1);
Tensor xavier_uniform_(Tensor x, double gain = 1);
Tensor xavier_normal_(Tensor x, double gain = 1);
Tensor kaiming_uniform_(Tensor x, double slope = 0);
Tensor kaiming_normal_(Tensor x, double slope = 0);
Tensor orthogonal_(Tensor x, double gain = 1);
}  // namespace init

namespace utils {
// Scales the gradients to a norm of at most max_norm; returns the norm before.
double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double p = 2);
double clip_grad_norm_(const Tensor& parameter, double max_norm, double p = 2);
void clip_grad_value_(const std::vector<Tensor>& parameters, double limit);
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

// LibTorch's third namespace, for programs that write namespace c10 = binade::c10.
namespace binade::c10 {
using binade::Error;
using binade::InferenceMode;
using std::nullopt;
using std::optional;
}  // namespace binade::c10
