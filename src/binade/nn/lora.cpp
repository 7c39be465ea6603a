#include "binade/nn/lora.h"

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/nn/init.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"

namespace binade::nn {

LoraAdapter::LoraAdapter(const LoraConfig& config, Device device)
    : config_(config), dropout_(config.dropout) {
  if (config.in < 1 || config.rows < 1 || config.begin < 0 || config.rank < 1) {
    fail("LoraAdapter", {.argument = "in, rows, rank",
                         .expected = "at least 1",
                         .found = std::to_string(config.in) + ", " + std::to_string(config.rows) +
                                  ", " + std::to_string(config.rank)});
  }
  const double bound = 1 / std::sqrt(static_cast<double>(config.in));
  a = init::uniform({config.rank, config.in}, bound, {device, DType::f32});
  b = init::constant({config.rows, config.rank}, 0, {device, DType::f32});
  add_parameter("a", a);
  add_parameter("b", b);
  add_child("dropout", dropout_);
}

Tensor LoraAdapter::forward(const Tensor& x) {
  // Under autocast the matmuls convert their operands themselves.
  const Tensor input = amp::autocast_state().enabled ? x : cast(x, a.dtype());
  return linear(linear(dropout_(input), a) * config_.scale, b);
}

}  // namespace binade::nn
