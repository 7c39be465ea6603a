#pragma once

#include "binade/nn/module.h"
#include "binade/ops/conv/conv.h"

namespace binade::nn {

struct ConvConfig {
  int64_t in = 0;
  int64_t out = 0;
  PerAxis kernel = {3};
  ConvOptions options = {};
  bool bias = true;
};

// A convolution over one, two or three spatial axes; initial weights as in PyTorch.
template <int axes>
class Conv : public Layer {
 public:
  explicit Conv(const ConvConfig& config, Placement placement = {});
  Conv(int64_t in, int64_t out, int64_t kernel, Placement placement = {})
      : Conv(ConvConfig{.in = in, .out = out, .kernel = {kernel}}, placement) {}
  std::string description() const override;

  Tensor weight, bias;
  ConvOptions options;

 protected:
  Tensor forward(const Tensor& x) override;
};

using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

struct ConvTransposeConfig {
  int64_t in = 0;
  int64_t out = 0;
  PerAxis kernel = {3};
  ConvTransposeOptions options = {};
  bool bias = true;
};

// A transposed convolution, weight [in, out / groups, kernel...]; initial weights as in PyTorch.
template <int axes>
class ConvTranspose : public Layer {
 public:
  explicit ConvTranspose(const ConvTransposeConfig& config, Placement placement = {});
  ConvTranspose(int64_t in, int64_t out, int64_t kernel, Placement placement = {})
      : ConvTranspose(ConvTransposeConfig{.in = in, .out = out, .kernel = {kernel}}, placement) {}
  std::string description() const override;

  Tensor weight, bias;
  ConvTransposeOptions options;

 protected:
  Tensor forward(const Tensor& x) override;
};

using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

}  // namespace binade::nn
