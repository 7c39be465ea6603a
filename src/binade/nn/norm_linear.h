#pragma once

#include "binade/nn/transformer.h"

// A norm and the linear or MLP after it as one module: under recipes with delayed scales the norm
// writes the quantized input directly.
namespace binade::nn {

struct NormLinearConfig {
  LinearConfig linear;
  NormKind norm = NormKind::layer;
  double eps = 1e-5;
};

// linear(norm(x)).
class NormLinear : public Layer {
 public:
  explicit NormLinear(const NormLinearConfig& config, Placement placement = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::unique_ptr<RowNorm> norm_;
  Linear linear_;
};

struct NormMLPConfig {
  MLPConfig mlp;
  NormKind norm = NormKind::layer;
  double eps = 1e-5;
};

// mlp(norm(x)).
class NormMLP : public Layer {
 public:
  explicit NormMLP(const NormMLPConfig& config, Placement placement = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::unique_ptr<RowNorm> norm_;
  MLP mlp_;
};

}  // namespace binade::nn
