#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/base/restore.h"
#include "binade/nn/lora.h"
#include "binade/nn/module.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/quantized/block_linear.h"
#include "binade/ops/quantized/round_weight.h"

namespace binade {
struct QuantizedLayer;
}  // namespace binade
namespace binade::amp {
struct Recipe;
}

namespace binade::nn {

class RoundedWeight;

// For its lifetime, linear layers made on this thread have no weight: it comes in blocks
// (Linear::set_block_weight), or is set later. Other parameters get the values that they would have
// otherwise.
class [[nodiscard]] WithoutWeights {
 public:
  WithoutWeights();

 private:
  Restore<bool> scope_;
};

struct LinearConfig {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
  Activation activation = Activation::none;
  double deviation = 0;  // of normal initial weights; 0: uniform in +-1/sqrt(in), as in PyTorch
  bool feeds_swiglu = false;  // SwiGLU alone reads its result; see amp::Role::hidden
};

// activation(x weight^T + bias), weight [out, in]. Under amp::QuantizedAutocast its matmuls run by
// a recipe; delayed scales and their histories are buffers scales.{input,weight,gradient,hidden}.*.
class Linear : public Layer {
 public:
  explicit Linear(const LinearConfig& config, Placement placement = {});
  Linear(int64_t in, int64_t out, Placement placement = {})
      : Linear(LinearConfig{.in = in, .out = out}, placement) {}

  std::string description() const override;

  // Adds an adapter, whose parameters are lora.<name>.a and .b. Adapters of one layer have
  // different channels.
  LoraAdapter& add_adapter(const std::string& name, const LoraConfig& config);
  // The adapter of that name, or null.
  LoraAdapter* find_adapter(const std::string& name) const;
  bool has_adapters() const { return !adapters_.empty(); }

  // Quantization-aware training: from now on the layer computes with the values that a file of this
  // format holds for its weight, merged with its adapters, each part by itself (round_weight()).
  // The weight and the adapters get their gradients as if nothing were rounded; weight and adapters
  // stay f32. Null ends it. No recipe runs beside it, and adapters have no dropout.
  void set_weight_format(const formats::WeightFormat* format, std::vector<WeightPart> parts = {});
  // The format, or null.
  const formats::WeightFormat* weight_format() const;

  // QLoRA: the layer computes with the values of these blocks, which nobody trains
  // (block_linear()); `weight` is undefined, and so no parameter. No recipe and no weight format go
  // beside it.
  void set_block_weight(std::shared_ptr<const BlockWeight> blocks);
  // The blocks, or null.
  const BlockWeight* block_weight() const { return blocks_.get(); }
  int64_t block_weight_count() const override { return blocks_ == nullptr ? 0 : shape_.numel(); }
  // [out, in], also of a layer without a weight.
  Shape weight_shape() const { return weight.defined() ? weight.shape() : shape_; }

  // (*this)(x), and swiglu of it if one kernel computes both; see linear_with_swiglu.
  std::pair<Tensor, Tensor> with_swiglu(const Tensor& x);

  // For the library's own use: the layer as the consumer of a fused op, which computes and
  // quantizes its input in one pass; none if it runs by no recipe that allows it.
  std::optional<QuantizedLayer> fused_consumer() const;
  amp::LayerScales* layer_scales() override { return scales_.get(); }

  Tensor weight, bias;
  Activation activation;

 protected:
  Tensor forward(const Tensor& x) override;
  void before_save() override;
  void before_load(const StateDict& state, const std::string& prefix) override;

 private:
  // The arguments of quantized ops.
  QuantizedLayer quantized(const amp::Recipe& recipe, Activation activated_by) const;
  // The layer without its adapters.
  Tensor base(const Tensor& x, Activation activated_by);
  // y, the layer's output before the activation, with the adapters' additions.
  Tensor adapted(const Tensor& y, const Tensor& x);
  // What an adapter adds to y. Zeros that lead to its gradients if the weight has it already.
  Tensor addition_of(LoraAdapter& adapter, const Tensor& x, DType dtype) const;
  // The weight to compute with.
  Tensor computed_weight();
  // The weight with the adapters' updates, in f32.
  Tensor merged_weight() const;

  Shape shape_;  // of the weight
  Device device_;
  bool feeds_swiglu_;
  std::shared_ptr<amp::LayerScales> scales_;
  std::shared_ptr<const BlockWeight> blocks_;  // null: the weight is a parameter
  std::shared_ptr<RoundedWeight> rounded_;     // null: computes with the weight itself
  std::vector<std::pair<std::string, std::unique_ptr<LoraAdapter>>> adapters_;  // by channel
};

struct EmbeddingConfig {
  int64_t count = 0;
  int64_t width = 0;
  double deviation = 1;
};

// Selects rows of weight [count, width] by index.
class Embedding : public Layer {
 public:
  explicit Embedding(const EmbeddingConfig& config, Placement placement = {});
  Embedding(int64_t count, int64_t width, Placement placement = {})
      : Embedding(EmbeddingConfig{.count = count, .width = width}, placement) {}
  std::string description() const override;

  Tensor weight;

 protected:
  Tensor forward(const Tensor& index) override;
};

}  // namespace binade::nn
