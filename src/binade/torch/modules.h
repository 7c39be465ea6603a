#pragma once

#include <tuple>

#include "binade/nn/activation.h"
#include "binade/nn/conv.h"
#include "binade/nn/linear.h"
#include "binade/nn/masked_attention.h"
#include "binade/nn/norm.h"
#include "binade/nn/pool.h"
#include "binade/nn/recurrent.h"
#include "binade/nn/sequential.h"
#include "binade/ops/shape/pad.h"
#include "binade/torch/containers.h"
#include "binade/torch/functional.h"

// torch::nn's modules: holders of the library's own. Parameters have PyTorch's names.
namespace binade::torch::nn {

struct LinearImpl : Callable<binade::nn::Linear> {
  LinearImpl(int64_t in, int64_t out) : LinearImpl(LinearOptions(in, out)) {}
  explicit LinearImpl(const LinearOptions& options);
  LinearOptions options;
};
BINADE_TORCH_MODULE(Linear);

struct BilinearImpl : Module {
  BilinearImpl(int64_t in1, int64_t in2, int64_t out)
      : BilinearImpl(BilinearOptions(in1, in2, out)) {}
  explicit BilinearImpl(const BilinearOptions& options);
  Tensor forward(const Tensor& a, const Tensor& b);
  BilinearOptions options;
  Tensor weight, bias;
};
BINADE_TORCH_MODULE(Bilinear);

template <int axes>
struct ConvImpl : Callable<binade::nn::Conv<axes>> {
  ConvImpl(int64_t in, int64_t out, Sizes kernel)
      : ConvImpl(ConvOptions<axes>(in, out, std::move(kernel))) {}
  explicit ConvImpl(const ConvOptions<axes>& options);
};
BINADE_TORCH_MODULE_IMPL(Conv1d, ConvImpl<1>);
BINADE_TORCH_MODULE_IMPL(Conv2d, ConvImpl<2>);
BINADE_TORCH_MODULE_IMPL(Conv3d, ConvImpl<3>);

template <int axes>
struct ConvTransposeImpl : Callable<binade::nn::ConvTranspose<axes>> {
  ConvTransposeImpl(int64_t in, int64_t out, Sizes kernel)
      : ConvTransposeImpl(ConvOptions<axes>(in, out, std::move(kernel))) {}
  explicit ConvTransposeImpl(const ConvOptions<axes>& options);
};
BINADE_TORCH_MODULE_IMPL(ConvTranspose1d, ConvTransposeImpl<1>);
BINADE_TORCH_MODULE_IMPL(ConvTranspose2d, ConvTransposeImpl<2>);
BINADE_TORCH_MODULE_IMPL(ConvTranspose3d, ConvTransposeImpl<3>);

struct BatchNormImpl : Callable<binade::nn::BatchNorm> {
  explicit BatchNormImpl(const BatchNormOptions& options);
};
BINADE_TORCH_MODULE_IMPL(BatchNorm1d, BatchNormImpl);
BINADE_TORCH_MODULE_IMPL(BatchNorm2d, BatchNormImpl);
BINADE_TORCH_MODULE_IMPL(BatchNorm3d, BatchNormImpl);

struct InstanceNormImpl : Callable<binade::nn::InstanceNorm> {
  explicit InstanceNormImpl(const InstanceNormOptions& options)
      : Callable(options.num_features(), binade::nn::InstanceNormOptions{
                                             .eps = options.eps(), .affine = options.affine()}) {}
};
BINADE_TORCH_MODULE_IMPL(InstanceNorm1d, InstanceNormImpl);
BINADE_TORCH_MODULE_IMPL(InstanceNorm2d, InstanceNormImpl);
BINADE_TORCH_MODULE_IMPL(InstanceNorm3d, InstanceNormImpl);

struct LayerNormImpl : Module {
  explicit LayerNormImpl(const LayerNormOptions& options);
  Tensor forward(const Tensor& x);
  LayerNormOptions options;
  Tensor weight, bias;
};
BINADE_TORCH_MODULE(LayerNorm);

struct GroupNormImpl : Callable<binade::nn::GroupNorm> {
  GroupNormImpl(int64_t groups, int64_t channels)
      : GroupNormImpl(GroupNormOptions(groups, channels)) {}
  explicit GroupNormImpl(const GroupNormOptions& options);
};
BINADE_TORCH_MODULE(GroupNorm);

// An embedding one of whose rows stays zero.
struct PaddedEmbedding : binade::nn::Embedding {
  explicit PaddedEmbedding(const EmbeddingOptions& options);
  EmbeddingOptions options;

 protected:
  Tensor forward(const Tensor& index) override;
};
struct EmbeddingImpl : Callable<PaddedEmbedding> {
  EmbeddingImpl(int64_t count, int64_t width) : EmbeddingImpl(EmbeddingOptions(count, width)) {}
  explicit EmbeddingImpl(const EmbeddingOptions& options) : Callable(options) {}
};
class Embedding : public ModuleHolder<EmbeddingImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  // With these weights, which do not learn unless the options say so.
  static Embedding from_pretrained(const Tensor& weights,
                                   const EmbeddingFromPretrainedOptions& options = {});
};

// A module without parameters: a function with options.
template <class Options, Tensor (*function)(const Tensor&, const Options&)>
struct FunctionImpl : binade::nn::Layer {
  FunctionImpl() requires std::default_initializable<Options>
  = default;
  FunctionImpl(const Options& options) : options(options) {}  // NOLINT: of its options
  Tensor forward(const Tensor& x) override { return function(x, options); }
  Options options;
};
using ReLUImpl = FunctionImpl<ReLUOptions, functional::relu>;
BINADE_TORCH_MODULE(ReLU);
using LeakyReLUImpl = FunctionImpl<LeakyReLUOptions, functional::leaky_relu>;
BINADE_TORCH_MODULE(LeakyReLU);
using ELUImpl = FunctionImpl<ELUOptions, functional::elu>;
BINADE_TORCH_MODULE(ELU);
using GELUImpl = FunctionImpl<GELUOptions, functional::gelu>;
BINADE_TORCH_MODULE(GELU);
using HardtanhImpl = FunctionImpl<HardtanhOptions, functional::hardtanh>;
BINADE_TORCH_MODULE(Hardtanh);
using SoftmaxImpl = FunctionImpl<SoftmaxOptions, functional::softmax>;
BINADE_TORCH_MODULE(Softmax);
using LogSoftmaxImpl = FunctionImpl<SoftmaxOptions, functional::log_softmax>;
BINADE_TORCH_MODULE(LogSoftmax);
using SoftplusImpl = FunctionImpl<SoftplusOptions, functional::softplus>;
BINADE_TORCH_MODULE(Softplus);
using CELUImpl = FunctionImpl<CELUOptions, functional::celu>;
BINADE_TORCH_MODULE(CELU);
using GLUImpl = FunctionImpl<GLUOptions, functional::glu>;
BINADE_TORCH_MODULE(GLU);
using HardshrinkImpl = FunctionImpl<ShrinkOptions, functional::hardshrink>;
BINADE_TORCH_MODULE(Hardshrink);
using SoftshrinkImpl = FunctionImpl<ShrinkOptions, functional::softshrink>;
BINADE_TORCH_MODULE(Softshrink);
using SoftminImpl = FunctionImpl<SoftmaxOptions, functional::softmin>;
BINADE_TORCH_MODULE(Softmin);
struct ThresholdImpl : FunctionImpl<ThresholdOptions, functional::threshold> {
  ThresholdImpl(double threshold, double value)
      : ThresholdImpl(ThresholdOptions(threshold, value)) {}
  ThresholdImpl(const ThresholdOptions& options) : FunctionImpl(options) {}  // NOLINT
};
BINADE_TORCH_MODULE(Threshold);
using PixelShuffleImpl = FunctionImpl<PixelShuffleOptions, functional::pixel_shuffle>;
BINADE_TORCH_MODULE(PixelShuffle);
Tensor unflattened(const Tensor& x, const UnflattenOptions& options);
using UnflattenImpl = FunctionImpl<UnflattenOptions, unflattened>;
BINADE_TORCH_MODULE(Unflatten);
template <PadMode mode>
Tensor padded(const Tensor& x, const PadOptions2d& options) {
  return binade::pad(x, options.padding(), {.mode = mode});
}
template <PadMode mode>
struct Pad2dImpl : FunctionImpl<PadOptions2d, padded<mode>> {
  Pad2dImpl(const PadOptions2d& options)  // NOLINT: of its options
      : FunctionImpl<PadOptions2d, padded<mode>>(options) {}
};
BINADE_TORCH_MODULE_IMPL(ZeroPad2d, Pad2dImpl<PadMode::constant>);
BINADE_TORCH_MODULE_IMPL(ReflectionPad2d, Pad2dImpl<PadMode::reflect>);
BINADE_TORCH_MODULE_IMPL(ReplicationPad2d, Pad2dImpl<PadMode::replicate>);
using UpsampleImpl = FunctionImpl<UpsampleOptions, functional::interpolate>;
BINADE_TORCH_MODULE(Upsample);
template <int axes, Tensor (*function)(const Tensor&, const PoolOptions<axes>&)>
struct PoolImpl : FunctionImpl<PoolOptions<axes>, function> {
  PoolImpl(const PoolOptions<axes>& options)  // NOLINT: of its options
      : FunctionImpl<PoolOptions<axes>, function>(options) {}
};
BINADE_TORCH_MODULE_IMPL(MaxPool1d, PoolImpl<1 BINADE_TORCH_COMMA functional::max_pool1d>);
BINADE_TORCH_MODULE_IMPL(MaxPool2d, PoolImpl<2 BINADE_TORCH_COMMA functional::max_pool2d>);
BINADE_TORCH_MODULE_IMPL(MaxPool3d, PoolImpl<3 BINADE_TORCH_COMMA functional::max_pool3d>);
BINADE_TORCH_MODULE_IMPL(AvgPool1d, PoolImpl<1 BINADE_TORCH_COMMA functional::avg_pool1d>);
BINADE_TORCH_MODULE_IMPL(AvgPool2d, PoolImpl<2 BINADE_TORCH_COMMA functional::avg_pool2d>);
BINADE_TORCH_MODULE_IMPL(AvgPool3d, PoolImpl<3 BINADE_TORCH_COMMA functional::avg_pool3d>);
using AdaptiveAvgPool1dImpl = FunctionImpl<AdaptivePoolOptions, functional::adaptive_avg_pool1d>;
BINADE_TORCH_MODULE(AdaptiveAvgPool1d);
using AdaptiveAvgPool2dImpl = FunctionImpl<AdaptivePoolOptions, functional::adaptive_avg_pool2d>;
BINADE_TORCH_MODULE(AdaptiveAvgPool2d);
using AdaptiveMaxPool2dImpl = FunctionImpl<AdaptivePoolOptions, functional::adaptive_max_pool2d>;
BINADE_TORCH_MODULE(AdaptiveMaxPool2d);

// Dropout while training: of elements, or of whole channels.
template <Tensor (*function)(const Tensor&, const functional::DropoutFuncOptions&)>
struct DropoutModule : binade::nn::Layer {
  DropoutModule(const DropoutOptions& options = {}) : options(options) {}  // NOLINT
  Tensor forward(const Tensor& x) override {
    return function(x, functional::DropoutFuncOptions()
                           .p(options.p())
                           .training(training())
                           .inplace(options.inplace()));
  }
  DropoutOptions options;
};
using DropoutImpl = DropoutModule<functional::dropout>;
BINADE_TORCH_MODULE(Dropout);
using Dropout2dImpl = DropoutModule<functional::dropout2d>;
BINADE_TORCH_MODULE(Dropout2d);
BINADE_TORCH_MODULE_IMPL(Dropout3d, Dropout2dImpl);

using IdentityImpl = Callable<binade::nn::Identity>;
BINADE_TORCH_MODULE(Identity);
using SiLUImpl = Callable<binade::nn::SiLU>;
BINADE_TORCH_MODULE(SiLU);
using MishImpl = Callable<binade::nn::Mish>;
BINADE_TORCH_MODULE(Mish);
using SigmoidImpl = Callable<binade::nn::Sigmoid>;
BINADE_TORCH_MODULE(Sigmoid);
using TanhImpl = Callable<binade::nn::Tanh>;
BINADE_TORCH_MODULE(Tanh);
using HardswishImpl = Callable<binade::nn::Hardswish>;
BINADE_TORCH_MODULE(Hardswish);
using HardsigmoidImpl = Callable<binade::nn::Hardsigmoid>;
BINADE_TORCH_MODULE(Hardsigmoid);
using SELUImpl = Callable<binade::nn::FunctionLayer<binade::selu>>;
BINADE_TORCH_MODULE(SELU);
using ReLU6Impl = Callable<binade::nn::FunctionLayer<binade::relu6>>;
BINADE_TORCH_MODULE(ReLU6);
using LogSigmoidImpl = Callable<binade::nn::FunctionLayer<binade::logsigmoid>>;
BINADE_TORCH_MODULE(LogSigmoid);
using TanhshrinkImpl = Callable<binade::nn::FunctionLayer<functional::tanhshrink>>;
BINADE_TORCH_MODULE(Tanhshrink);
using SoftsignImpl = Callable<binade::nn::FunctionLayer<binade::softsign>>;
BINADE_TORCH_MODULE(Softsign);

struct PReLUImpl : Callable<binade::nn::PReLU> {
  explicit PReLUImpl(const PReLUOptions& options = {})
      : Callable(options.num_parameters(), options.init()) {}
};
BINADE_TORCH_MODULE(PReLU);
struct FlattenImpl : Callable<binade::nn::Flatten> {
  explicit FlattenImpl(const FlattenOptions& options = {})
      : Callable(options.start_dim(), options.end_dim()) {}
};
BINADE_TORCH_MODULE(Flatten);

// ---- recurrent networks ----

using LSTMState = std::tuple<Tensor, Tensor>;

struct LSTMImpl : binade::nn::LSTM {
  LSTMImpl(int64_t in, int64_t hidden) : LSTMImpl(LSTMOptions(in, hidden)) {}
  explicit LSTMImpl(const LSTMOptions& options);
  std::tuple<Tensor, LSTMState> forward(const Tensor& x,
                                        const std::optional<LSTMState>& state = {});
};
BINADE_TORCH_MODULE(LSTM);
struct GRUImpl : binade::nn::GRU {
  GRUImpl(int64_t in, int64_t hidden) : GRUImpl(GRUOptions(in, hidden)) {}
  explicit GRUImpl(const GRUOptions& options);
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& state = {});
};
BINADE_TORCH_MODULE(GRU);
struct RNNImpl : binade::nn::RNN {
  RNNImpl(int64_t in, int64_t hidden) : RNNImpl(RNNOptions(in, hidden)) {}
  explicit RNNImpl(const RNNOptions& options);
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& state = {});
};
BINADE_TORCH_MODULE(RNN);

// Cells; their parameters are weight_ih, weight_hh, bias_ih and bias_hh.
struct CellImpl : Module {
  CellImpl(const RNNCellOptions& options, int64_t gates);
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  Tensor initial(const Tensor& x) const;
};
struct LSTMCellImpl : CellImpl {
  LSTMCellImpl(int64_t in, int64_t hidden) : LSTMCellImpl(LSTMCellOptions(in, hidden)) {}
  explicit LSTMCellImpl(const LSTMCellOptions& options) : CellImpl(options, 4) {}
  LSTMState forward(const Tensor& x, const std::optional<LSTMState>& state = {});
};
BINADE_TORCH_MODULE(LSTMCell);
struct GRUCellImpl : CellImpl {
  GRUCellImpl(int64_t in, int64_t hidden) : GRUCellImpl(GRUCellOptions(in, hidden)) {}
  explicit GRUCellImpl(const GRUCellOptions& options) : CellImpl(options, 3) {}
  Tensor forward(const Tensor& x, const Tensor& state = {});
};
BINADE_TORCH_MODULE(GRUCell);
struct RNNCellImpl : CellImpl {
  RNNCellImpl(int64_t in, int64_t hidden) : RNNCellImpl(RNNCellOptions(in, hidden)) {}
  explicit RNNCellImpl(const RNNCellOptions& options) : CellImpl(options, 1) {}
  Tensor forward(const Tensor& x, const Tensor& state = {});
};
BINADE_TORCH_MODULE(RNNCell);

// ---- attention ----

struct MultiheadAttentionImpl : binade::nn::MaskedAttention {
  MultiheadAttentionImpl(int64_t width, int64_t heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions(width, heads)) {}
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options);
  // The result and the weights, averaged over heads.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {});
};
BINADE_TORCH_MODULE(MultiheadAttention);

// Self-attention and a perceptron, each added to its input and normalized after that; x is [time,
// batch, width].
struct TransformerEncoderLayerImpl : Module {
  TransformerEncoderLayerImpl(int64_t width, int64_t heads)
      : TransformerEncoderLayerImpl(TransformerEncoderLayerOptions(width, heads)) {}
  explicit TransformerEncoderLayerImpl(const TransformerEncoderLayerOptions& options);
  Tensor forward(const Tensor& x, const Tensor& mask = {}, const Tensor& key_padding_mask = {});
  TransformerEncoderLayerOptions options;
  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout, dropout1, dropout2;
};
BINADE_TORCH_MODULE(TransformerEncoderLayer);

// Layers one after another.
struct TransformerEncoderImpl : Module {
  explicit TransformerEncoderImpl(const TransformerEncoderOptions& options);
  TransformerEncoderImpl(const TransformerEncoderLayerOptions& layer, int64_t layers)
      : TransformerEncoderImpl(TransformerEncoderOptions(layer, layers)) {}
  // As many layers with the options of this one, whose values are copied.
  TransformerEncoderImpl(const TransformerEncoderLayer& layer, int64_t layers);
  Tensor forward(const Tensor& x, const Tensor& mask = {}, const Tensor& key_padding_mask = {});
  ModuleList layers;
};
BINADE_TORCH_MODULE(TransformerEncoder);

// ---- distances and losses ----

struct PairwiseDistanceImpl : Module {
  explicit PairwiseDistanceImpl(const PairwiseDistanceOptions& options = {}) : options(options) {}
  Tensor forward(const Tensor& a, const Tensor& b) {
    return functional::pairwise_distance(a, b, options);
  }
  PairwiseDistanceOptions options;
};
BINADE_TORCH_MODULE(PairwiseDistance);

struct CosineSimilarityImpl : Module {
  explicit CosineSimilarityImpl(const CosineSimilarityOptions& options = {}) : options(options) {}
  Tensor forward(const Tensor& a, const Tensor& b) {
    return functional::cosine_similarity(a, b, options);
  }
  CosineSimilarityOptions options;
};
BINADE_TORCH_MODULE(CosineSimilarity);

template <class Options, Tensor (*function)(const Tensor&, const Tensor&, const Options&)>
struct LossImpl : Module {
  explicit LossImpl(const Options& options = {}) : options(options) {}
  Tensor forward(const Tensor& x, const Tensor& target) { return function(x, target, options); }
  Options options;
};
using CrossEntropyLossImpl = LossImpl<CrossEntropyLossOptions, functional::cross_entropy>;
BINADE_TORCH_MODULE(CrossEntropyLoss);
using NLLLossImpl = LossImpl<NLLLossOptions, functional::nll_loss>;
BINADE_TORCH_MODULE(NLLLoss);
using MSELossImpl = LossImpl<LossOptions, functional::mse_loss>;
BINADE_TORCH_MODULE(MSELoss);
using L1LossImpl = LossImpl<LossOptions, functional::l1_loss>;
BINADE_TORCH_MODULE(L1Loss);
using SmoothL1LossImpl = LossImpl<SmoothL1LossOptions, functional::smooth_l1_loss>;
BINADE_TORCH_MODULE(SmoothL1Loss);
using HuberLossImpl = LossImpl<HuberLossOptions, functional::huber_loss>;
BINADE_TORCH_MODULE(HuberLoss);
using BCELossImpl = LossImpl<BCELossOptions, functional::binary_cross_entropy>;
BINADE_TORCH_MODULE(BCELoss);
using BCEWithLogitsLossImpl =
    LossImpl<BCEWithLogitsLossOptions, functional::binary_cross_entropy_with_logits>;
BINADE_TORCH_MODULE(BCEWithLogitsLoss);
using KLDivLossImpl = LossImpl<KLDivLossOptions, functional::kl_div>;
BINADE_TORCH_MODULE(KLDivLoss);
using SoftMarginLossImpl = LossImpl<LossOptions, functional::soft_margin_loss>;
BINADE_TORCH_MODULE(SoftMarginLoss);
using HingeEmbeddingLossImpl =
    LossImpl<HingeEmbeddingLossOptions, functional::hinge_embedding_loss>;
BINADE_TORCH_MODULE(HingeEmbeddingLoss);
using MultiMarginLossImpl = LossImpl<MultiMarginLossOptions, functional::multi_margin_loss>;
BINADE_TORCH_MODULE(MultiMarginLoss);
using PoissonNLLLossImpl = LossImpl<PoissonNLLLossOptions, functional::poisson_nll_loss>;
BINADE_TORCH_MODULE(PoissonNLLLoss);

// Losses of two tensors and a target.
template <class Options,
          Tensor (*function)(const Tensor&, const Tensor&, const Tensor&, const Options&)>
struct PairLossImpl : Module {
  explicit PairLossImpl(const Options& options = {}) : options(options) {}
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) {
    return function(a, b, c, options);
  }
  Options options;
};
using TripletMarginLossImpl =
    PairLossImpl<TripletMarginLossOptions, functional::triplet_margin_loss>;
BINADE_TORCH_MODULE(TripletMarginLoss);
using MarginRankingLossImpl =
    PairLossImpl<MarginRankingLossOptions, functional::margin_ranking_loss>;
BINADE_TORCH_MODULE(MarginRankingLoss);
using CosineEmbeddingLossImpl =
    PairLossImpl<CosineEmbeddingLossOptions, functional::cosine_embedding_loss>;
BINADE_TORCH_MODULE(CosineEmbeddingLoss);

struct CTCLossImpl : Module {
  explicit CTCLossImpl(const CTCLossOptions& options = {}) : options(options) {}
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) {
    return functional::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
  }
  CTCLossOptions options;
};
BINADE_TORCH_MODULE(CTCLoss);

}  // namespace binade::torch::nn
