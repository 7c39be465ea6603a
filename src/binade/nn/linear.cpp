#include "binade/nn/linear.h"

#include <cmath>

#include "binade/nn/init.h"
#include "binade/ops/index.h"

namespace binade::nn {

Linear::Linear(const LinearConfig& config, Placement placement) : activation(config.activation) {
  if (config.in < 1 || config.out < 1) {
    fail("Linear", {.argument = "in, out", .expected = "at least 1", .found = std::to_string(config.in) + ", " + std::to_string(config.out)});
  }
  const Shape shape{config.out, config.in};
  const double bound = 1 / std::sqrt(static_cast<double>(config.in));
  weight = config.deviation > 0 ? init::normal(shape, config.deviation, placement) : init::uniform(shape, bound, placement);
  if (config.bias) {
    bias = config.deviation > 0 ? init::constant({config.out}, 0, placement) : init::uniform({config.out}, bound, placement);
  }
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias, activation); }

Embedding::Embedding(const EmbeddingConfig& config, Placement placement) {
  if (config.count < 1 || config.width < 1) {
    fail("Embedding", {.argument = "count, width", .expected = "at least 1", .found = std::to_string(config.count) + ", " + std::to_string(config.width)});
  }
  weight = init::normal({config.count, config.width}, config.deviation, placement);
  add_parameter("weight", weight);
}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight, index); }

}  // namespace binade::nn
