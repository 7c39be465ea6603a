#include "binade/nn/activation.h"

#include <fmt/format.h>

#include "binade/nn/init.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/shape/shape.h"

namespace binade::nn {

std::string LeakyReLU::description() const { return fmt::format("LeakyReLU({:g})", slope); }

std::string GELU::description() const { return form == Gelu::erf ? "GELU" : "GELU(tanh)"; }

std::string ELU::description() const { return fmt::format("ELU({:g})", alpha); }

std::string AxisLayer::description() const {
  return fmt::format("{}(axis {})", Layer::description(), axis);
}

Tensor Softmax::forward(const Tensor& x) { return softmax(x, axis); }
Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x, axis); }

PReLU::PReLU(int64_t count, double initial, Placement placement) {
  if (count < 1)
    fail("PReLU", {.argument = "count", .expected = "at least 1", .found = std::to_string(count)});
  weight = init::constant({count}, initial, placement);
  add_parameter("weight", weight);
}
std::string PReLU::description() const { return fmt::format("PReLU({})", weight.numel()); }
Tensor PReLU::forward(const Tensor& x) { return prelu(x, weight); }

Tensor Flatten::forward(const Tensor& x) { return flatten(x, first, last); }

}  // namespace binade::nn
