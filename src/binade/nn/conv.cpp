#include "binade/nn/conv.h"

#include <cmath>

#include "binade/nn/init.h"

namespace binade::nn {

template <int axes>
Conv<axes>::Conv(const ConvConfig& config, Placement placement) : options(config.options) {
  const int64_t groups = config.options.groups;
  if (config.in < 1 || config.out < 1 || groups < 1 || config.in % groups != 0 ||
      config.out % groups != 0) {
    fail("Conv", {.argument = "in, out",
                  .expected = "at least 1 and multiples of groups (" + std::to_string(groups) + ")",
                  .found = std::to_string(config.in) + ", " + std::to_string(config.out)});
  }
  if (config.kernel.size() != 1 && config.kernel.size() != axes) {
    fail("Conv", {.argument = "kernel",
                  .expected = "one number or " + std::to_string(axes),
                  .found = std::to_string(config.kernel.size())});
  }
  for (const int64_t size : config.kernel) {
    if (size < 1)
      fail("Conv", {.argument = "kernel", .expected = "at least 1", .found = std::to_string(size)});
  }
  Shape shape{config.out, config.in / groups};
  for (size_t i = 0; i < axes; ++i)
    shape.push_back(config.kernel[config.kernel.size() == 1 ? 0 : i]);
  const int64_t inputs = shape.numel() / config.out;  // of one output
  const double fan_in = static_cast<double>(inputs);
  weight = init::uniform(shape, 1 / std::sqrt(fan_in), placement);
  if (config.bias) bias = init::uniform({config.out}, 1 / std::sqrt(fan_in), placement);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}

template <int axes>
Tensor Conv<axes>::forward(const Tensor& x) {
  if constexpr (axes == 1) return conv1d(x, weight, bias, options);
  if constexpr (axes == 2) return conv2d(x, weight, bias, options);
  if constexpr (axes == 3) return conv3d(x, weight, bias, options);
}

template class Conv<1>;
template class Conv<2>;
template class Conv<3>;

}  // namespace binade::nn
