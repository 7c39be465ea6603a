#pragma once

#include "binade/nn/sequential.h"

namespace binade::nn {

struct LoraConfig {
  int64_t in = 0;               // of the linear layer
  int64_t begin = 0, rows = 0;  // of its output channels that are adapted
  int64_t rank = 8;
  double scale = 1;  // alpha / rank
  double dropout = 0;
};

// Low-rank adaptation (LoRA, Hu et al., 2021) of channels [begin, begin + rows) of a linear layer's
// output: adds scale * b a dropout(x). `a` starts uniform in +-1/sqrt(in) and `b` zero, so that a
// new adapter changes nothing. Both are f32, whatever the layer's type.
class LoraAdapter : public Layer {
 public:
  explicit LoraAdapter(const LoraConfig& config, Device device = Device::cpu());

  const LoraConfig& config() const { return config_; }

  Tensor a, b;  // [rank, in], [rows, rank]

 protected:
  // The addition, in the type of the layer's output.
  Tensor forward(const Tensor& x) override;

 private:
  LoraConfig config_;
  Dropout dropout_;
};

}  // namespace binade::nn
