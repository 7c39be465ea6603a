#include "binade/train/run/throughput.h"

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
  return matmul_rate(device_of(config), config.precision.matmul) /
         flops_per_token(model_config(config));
}

void SpeedWindow::add(double tokens, double seconds) {
  steps_.push_back({tokens, seconds});
  tokens_ += tokens;
  seconds_ += seconds;
  while (steps_.size() > 1 && seconds_ - steps_.front().seconds >= window_) {
    tokens_ -= steps_.front().tokens;
    seconds_ -= steps_.front().seconds;
    steps_.pop_front();
  }
}

}  // namespace binade::train
