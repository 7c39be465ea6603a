#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "binade/backend/norm_kind.h"
#include "binade/nn/module.h"
#include "binade/ops/norm/norm.h"

namespace binade {
struct FusedNorm;
}

namespace binade::nn {

using backend::NormKind;

// The factor that a norm's weight stands for: itself, or 1 + weight, as in Gemma.
enum class NormWeight : uint8_t { plain, plus_one };

// A norm over the last axis.
class RowNorm : public Layer {
 public:
  // {sum, norm of sum} with sum = x + residual; see residual_layer_norm.
  std::pair<Tensor, Tensor> add(const Tensor& x, const Tensor& residual) const;
  std::string description() const override;

  // For the library's own use: the norm of x, or of x + residual as in add(), as the producer of a
  // fused op; none if no fused op can replace it.
  std::optional<FusedNorm> fused_producer(const Tensor& x) const;
  std::optional<FusedNorm> fused_producer(const Tensor& x, const Tensor& residual) const;

  Tensor weight, bias;
  double eps;

 protected:
  struct Shape {
    NormKind kind;
    int64_t width;
    double eps;
    bool bias;
    NormWeight weight = NormWeight::plain;
  };
  RowNorm(const Shape& shape, Placement placement);
  Tensor forward(const Tensor& x) override;

 private:
  // The factor per channel.
  Tensor gain() const;

  NormKind kind_;
  NormWeight weight_kind_;
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool bias = true;
};

class LayerNorm : public RowNorm {
 public:
  explicit LayerNorm(int64_t width, LayerNormOptions options = {}, Placement placement = {})
      : RowNorm({NormKind::layer, width, options.eps, options.bias}, placement) {}
};

class RMSNorm : public RowNorm {
 public:
  explicit RMSNorm(int64_t width, double eps = 1e-5, Placement placement = {},
                   NormWeight weight = NormWeight::plain)
      : RowNorm({NormKind::rms, width, eps, false, weight}, placement) {}
};

// `weight` matters for RMSNorm only.
std::unique_ptr<RowNorm> make_norm(NormKind kind, int64_t width, double eps, Placement placement,
                                   NormWeight weight = NormWeight::plain);

// x [n, channels, ...]. Running statistics are f32 buffers; num_batches_tracked counts the batches
// of training, as in PyTorch, and may be missing in a loaded state.
class BatchNorm : public Layer {
 public:
  explicit BatchNorm(int64_t channels, double eps = 1e-5, double momentum = 0.1,
                     Placement placement = {});
  std::string description() const override;
  int64_t batches() const { return batches_ < 0 ? 0 : batches_; }
  // relu((*this)(x) + residual), or without the residual if it is undefined, in one pass if
  // possible.
  Tensor relu(const Tensor& x, const Tensor& residual = {});

  Tensor weight, bias, running_mean, running_var;
  double eps, momentum;

 protected:
  Tensor forward(const Tensor& x) override;
  void before_save() override;
  void before_load(const StateDict& state, const std::string& prefix) override;

 private:
  BatchNormOptions options();

  // The count on the host, since the device never reads it; negative: a state without it was
  // loaded.
  int64_t batches_ = 0;
  Tensor num_batches_tracked_;  // made from it
};

class GroupNorm : public Layer {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, Placement placement = {});
  std::string description() const override;

  Tensor weight, bias;
  int64_t groups;
  double eps;

 protected:
  Tensor forward(const Tensor& x) override;
};

struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false;  // weight and bias per channel
};

// x [n, channels, ...], each channel of each sample by its own statistics, in training and
// afterwards: PyTorch's default, without running statistics.
class InstanceNorm : public Layer {
 public:
  explicit InstanceNorm(int64_t channels, InstanceNormOptions options = {},
                        Placement placement = {});
  std::string description() const override;

  Tensor weight, bias;  // undefined unless affine
  double eps;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  int64_t channels_;
};

}  // namespace binade::nn
