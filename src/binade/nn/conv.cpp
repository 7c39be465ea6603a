#include "binade/nn/conv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

#include "binade/nn/init.h"

namespace binade::nn {

namespace {

// Checks a layer's sizes and returns its kernel with one size per axis.
template <class Config>
PerAxis checked_kernel(const char* module, const Config& config, size_t axes) {
  const int64_t in = config.in, out = config.out, groups = config.options.groups;
  if (in < 1 || out < 1 || groups < 1 || in % groups != 0 || out % groups != 0) {
    fail(module, {.argument = "in, out",
                  .expected = "at least 1 and multiples of groups (" + std::to_string(groups) + ")",
                  .found = std::to_string(in) + ", " + std::to_string(out)});
  }
  const PerAxis& kernel = config.kernel;
  if (kernel.size() != 1 && kernel.size() != axes) {
    fail(module, {.argument = "kernel",
                  .expected = "one number or " + std::to_string(axes),
                  .found = std::to_string(kernel.size())});
  }
  for (const int64_t size : kernel) {
    if (size < 1)
      fail(module, {.argument = "kernel", .expected = "at least 1", .found = std::to_string(size)});
  }
  return kernel.size() == axes ? kernel : PerAxis(axes, kernel[0]);
}

// The initial weight and bias. A convolution's weight is [out, in / groups, kernel...]; a
// transposed one's has in and out exchanged.
template <class Config>
std::pair<Tensor, Tensor> initial_values(const Config& config, size_t axes, Placement placement) {
  constexpr bool transposed = std::is_same_v<Config, ConvTransposeConfig>;
  const PerAxis kernel = checked_kernel(transposed ? "ConvTranspose" : "Conv", config, axes);
  Shape shape = transposed ? Shape{config.in, config.out} : Shape{config.out, config.in};
  shape[1] /= config.options.groups;
  for (const int64_t size : kernel) shape.push_back(size);
  const int64_t inputs = shape.numel() / shape[0];  // of one output, by the weight's second axis
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));  // as in PyTorch
  Tensor weight = init::uniform(shape, bound, placement);
  Tensor bias = config.bias ? init::uniform({config.out}, bound, placement) : Tensor();
  return {std::move(weight), std::move(bias)};
}

template <class Options>
std::string described(const std::string& name, int64_t in, int64_t out, const Shape& weight,
                      const Options& options) {
  return fmt::format("{}({}, {}, kernel {}, stride {}, padding {})", name, in, out,
                     fmt::join(weight.begin() + 2, weight.end(), " x "),
                     fmt::join(options.stride, " x "), fmt::join(options.padding, " x "));
}

}  // namespace

template <int axes>
Conv<axes>::Conv(const ConvConfig& config, Placement placement) : options(config.options) {
  std::tie(weight, bias) = initial_values(config, axes, placement);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}

template <int axes>
std::string Conv<axes>::description() const {
  return described("Conv" + std::to_string(axes) + "d", weight.size(1) * options.groups,
                   weight.size(0), weight.shape(), options);
}

template <int axes>
Tensor Conv<axes>::forward(const Tensor& x) {
  if constexpr (axes == 1) return conv1d(x, weight, bias, options);
  if constexpr (axes == 2) return conv2d(x, weight, bias, options);
  if constexpr (axes == 3) return conv3d(x, weight, bias, options);
}

template <int axes>
ConvTranspose<axes>::ConvTranspose(const ConvTransposeConfig& config, Placement placement)
    : options(config.options) {
  std::tie(weight, bias) = initial_values(config, axes, placement);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}

template <int axes>
std::string ConvTranspose<axes>::description() const {
  return described("ConvTranspose" + std::to_string(axes) + "d", weight.size(0),
                   weight.size(1) * options.groups, weight.shape(), options);
}

template <int axes>
Tensor ConvTranspose<axes>::forward(const Tensor& x) {
  if constexpr (axes == 1) return conv_transpose1d(x, weight, bias, options);
  if constexpr (axes == 2) return conv_transpose2d(x, weight, bias, options);
  if constexpr (axes == 3) return conv_transpose3d(x, weight, bias, options);
}

template class Conv<1>;
template class Conv<2>;
template class Conv<3>;
template class ConvTranspose<1>;
template class ConvTranspose<2>;
template class ConvTranspose<3>;

}  // namespace binade::nn
