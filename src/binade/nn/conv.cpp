#include "binade/nn/conv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "binade/nn/init.h"

namespace binade::nn {

namespace {

struct Sizes {
  const char* module;
  int64_t in, out, groups;
};

// Checks a layer's sizes and returns its kernel with one size per axis.
PerAxis checked_kernel(const Sizes& sizes, const PerAxis& kernel, size_t axes) {
  const auto [module, in, out, groups] = sizes;
  if (in < 1 || out < 1 || groups < 1 || in % groups != 0 || out % groups != 0) {
    fail(module, {.argument = "in, out",
                  .expected = "at least 1 and multiples of groups (" + std::to_string(groups) + ")",
                  .found = std::to_string(in) + ", " + std::to_string(out)});
  }
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

// 1 / sqrt(inputs of one output), by the weight's second axis as in PyTorch.
double initial_bound(const Shape& weight) {
  const int64_t inputs = weight.numel() / weight[0];
  return 1 / std::sqrt(static_cast<double>(inputs));
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
  const int64_t groups = config.options.groups;
  Shape shape{config.out, config.in / std::max<int64_t>(groups, 1)};
  for (const int64_t size :
       checked_kernel({"Conv", config.in, config.out, groups}, config.kernel, axes))
    shape.push_back(size);
  const double bound = initial_bound(shape);
  weight = init::uniform(shape, bound, placement);
  if (config.bias) bias = init::uniform({config.out}, bound, placement);
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
  const int64_t groups = config.options.groups;
  Shape shape{config.in, config.out / std::max<int64_t>(groups, 1)};
  for (const int64_t size :
       checked_kernel({"ConvTranspose", config.in, config.out, groups}, config.kernel, axes))
    shape.push_back(size);
  const double bound = initial_bound(shape);
  weight = init::uniform(shape, bound, placement);
  if (config.bias) bias = init::uniform({config.out}, bound, placement);
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
