#pragma once

#include <optional>

#include "binade/amp/fp8.h"
#include "binade/nn/module.h"
#include "binade/ops/fp8_fused.h"
#include "binade/ops/linear.h"

namespace binade::nn {

struct LinearConfig {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
  Activation activation = Activation::none;
  double deviation = 0;  // of normal starting weights; 0: uniform in +-1/sqrt(in), as PyTorch does
};

// activation(x weight^T + bias), weight [out, in]. Under amp::Fp8Autocast its products run in FP8,
// and the scales and histories of delayed recipes are buffers fp8.{input,weight,gradient}.*.
class Linear : public Layer {
 public:
  explicit Linear(const LinearConfig& config, Placement placement = {});

  Tensor weight, bias;
  Activation activation;

  // Its FP8 products, where whoever makes its input or its gradient may write FP8 at once.
  std::optional<Fp8Layer> fp8_layer() const;

 protected:
  Tensor forward(const Tensor& x) override;
  void before_save() override;
  void before_load(const StateDict& state, const std::string& prefix) override;

 private:
  std::shared_ptr<amp::Fp8Linear> fp8_ = std::make_shared<amp::Fp8Linear>();
};

struct EmbeddingConfig {
  int64_t count = 0;
  int64_t width = 0;
  double deviation = 1;
};

// Rows of weight [count, width] by index.
class Embedding : public Layer {
 public:
  explicit Embedding(const EmbeddingConfig& config, Placement placement = {});

  Tensor weight;

 protected:
  Tensor forward(const Tensor& index) override;
};

}  // namespace binade::nn
