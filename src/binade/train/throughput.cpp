#include "binade/train/throughput.h"

#include "binade/train/machine.h"

namespace binade::train {

double flops_per_token(const nn::LanguageModelConfig& c) {
  const int64_t head_dim = c.head_width(), kv_heads = c.kv_heads == 0 ? c.heads : c.kv_heads;
  const int64_t attention = c.width * head_dim * (2 * c.heads + 2 * kv_heads);
  const int64_t mlp = c.width * c.hidden * (c.gated ? 3 : 2);
  const int64_t weights = c.layers * (attention + mlp) + c.vocab * c.width;
  return 6 * static_cast<double>(weights) +
         6 * static_cast<double>(c.layers * c.width) * static_cast<double>(c.context);
}

double full_speed(const Config& config) {
  return matmul_rate(device_of(config), config.precision) / flops_per_token(model_config(config));
}

}  // namespace binade::train
