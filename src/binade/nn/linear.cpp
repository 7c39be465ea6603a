#include "binade/nn/linear.h"

#include <cmath>

#include "binade/nn/init.h"
#include "binade/ops/fp8/linear.h"
#include "binade/ops/index.h"

namespace binade::nn {

Linear::Linear(const LinearConfig& config, Placement placement)
    : activation(config.activation), fp8_(std::make_shared<amp::Fp8LinearState>()) {
  if (config.in < 1 || config.out < 1) {
    fail("Linear", {.argument = "in, out",
                    .expected = "at least 1",
                    .found = std::to_string(config.in) + ", " + std::to_string(config.out)});
  }
  const Shape shape{config.out, config.in};
  const double bound = 1 / std::sqrt(static_cast<double>(config.in));
  weight = config.deviation > 0 ? init::normal(shape, config.deviation, placement)
                                : init::uniform(shape, bound, placement);
  if (config.bias) {
    bias = config.deviation > 0 ? init::constant({config.out}, 0, placement)
                                : init::uniform({config.out}, bound, placement);
  }
  add_parameter("weight", weight);
  add_parameter("bias", bias);
  const std::pair<const char*, amp::Fp8Stream*> streams[] = {{"fp8.input.", &fp8_->input},
                                                             {"fp8.weight.", &fp8_->weight},
                                                             {"fp8.gradient.", &fp8_->gradient}};
  for (const auto& [name, stream] : streams) {
    add_buffer(std::string(name) + "history", stream->history);
    add_buffer(std::string(name) + "scale", stream->scale);
    add_buffer(std::string(name) + "inverse", stream->scale_inv);
    add_buffer(std::string(name) + "pending", stream->pending);
    add_buffer(std::string(name) + "dropped", stream->dropped);
  }
}

std::string Linear::description() const {
  return "Linear(" + std::to_string(weight.size(1)) + ", " + std::to_string(weight.size(0)) +
         (bias.defined() ? ")" : ", no bias)");
}

Tensor Linear::forward(const Tensor& x) {
  if (const amp::Fp8Recipe* recipe = amp::fp8_recipe())
    return fp8_linear(x, {.weight = weight,
                          .bias = bias,
                          .activation = activation,
                          .recipe = recipe,
                          .state = fp8_});
  return linear(x, weight, bias, activation);
}

void Linear::before_save() { fp8_->flush(weight); }

void Linear::before_load(const StateDict& state, const std::string& prefix) {
  const auto history = state.find(prefix + "fp8.input.history");
  if (history == state.end()) return;
  for (amp::Fp8Stream* stream : {&fp8_->input, &fp8_->weight, &fp8_->gradient}) {
    stream->create(static_cast<int>(history->second.numel()), weight.device());
  }
  fp8_->restart();
}

Embedding::Embedding(const EmbeddingConfig& config, Placement placement) {
  if (config.count < 1 || config.width < 1) {
    fail("Embedding",
         {.argument = "count, width",
          .expected = "at least 1",
          .found = std::to_string(config.count) + ", " + std::to_string(config.width)});
  }
  weight = init::normal({config.count, config.width}, config.deviation, placement);
  add_parameter("weight", weight);
}

std::string Embedding::description() const {
  return "Embedding(" + std::to_string(weight.size(0)) + ", " + std::to_string(weight.size(1)) +
         ")";
}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight, index); }

}  // namespace binade::nn
