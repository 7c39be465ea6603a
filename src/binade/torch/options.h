#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/nn/init.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/pad.h"
#include "binade/torch/holder.h"

// Options of modules and of their functions. Names ending in FuncOptions are the functions'.
namespace binade::torch {

// One number for all axes, or one for each: 3, {3, 5}.
using Sizes = Axes;

// Reductions, modes of padding and of resizing.
struct BatchMean {};
inline constexpr BatchMean kBatchMean;
inline constexpr Reduce kMean = Reduce::mean, kSum = Reduce::sum, kNone = Reduce::none;
inline constexpr PadMode kConstant = PadMode::constant, kReflect = PadMode::reflect,
                         kReplicate = PadMode::replicate;
enum class Resize : uint8_t { nearest, bilinear, bicubic };
inline constexpr Resize kNearest = Resize::nearest, kBilinear = Resize::bilinear,
                        kBicubic = Resize::bicubic;
// Functions between layers, and the fans of init's functions.
using Nonlinearity = binade::nn::init::Nonlinearity;
inline constexpr Nonlinearity kLinear = Nonlinearity::linear, kSigmoid = Nonlinearity::sigmoid,
                              kTanh = Nonlinearity::tanh, kReLU = Nonlinearity::relu,
                              kLeakyReLU = Nonlinearity::leaky_relu, kSELU = Nonlinearity::selu;
struct GeluFunction {};
inline constexpr GeluFunction kGELU;
using FanMode = binade::nn::init::Kaiming::Fan;
inline constexpr FanMode kFanIn = FanMode::in, kFanOut = FanMode::out;
// torch::Reduction::Sum.
struct Reduction {
  static constexpr Reduce None = Reduce::none, Mean = Reduce::mean, Sum = Reduce::sum;
};

// Padding of convolutions: sizes, none, or as much as keeps the size.
struct SamePadding {};
inline constexpr SamePadding kSame;
struct ValidPadding {};
inline constexpr ValidPadding kValid;
struct Padding {
  Padding(Sizes sizes) : sizes(std::move(sizes)) {}  // NOLINT: each stands for padding
  Padding(int64_t size) : sizes(size) {}             // NOLINT
  Padding(std::initializer_list<int64_t> sizes) : sizes(sizes) {}
  Padding(SamePadding) : same(true) {}  // NOLINT
  Padding(ValidPadding) {}              // NOLINT

  Sizes sizes = 0;
  bool same = false;
};

namespace nn {

struct LinearOptions {
  LinearOptions(int64_t in, int64_t out) : in_features_(in), out_features_(out) {}
  BINADE_TORCH_ARG(int64_t, in_features);
  BINADE_TORCH_ARG(int64_t, out_features);
  BINADE_TORCH_ARG(bool, bias) = true;
};

struct BilinearOptions {
  BilinearOptions(int64_t in1, int64_t in2, int64_t out)
      : in1_features_(in1), in2_features_(in2), out_features_(out) {}
  BINADE_TORCH_ARG(int64_t, in1_features);
  BINADE_TORCH_ARG(int64_t, in2_features);
  BINADE_TORCH_ARG(int64_t, out_features);
  BINADE_TORCH_ARG(bool, bias) = true;
};

template <int axes>
struct ConvOptions {
  ConvOptions(int64_t in, int64_t out, Sizes kernel)
      : in_channels_(in), out_channels_(out), kernel_size_(std::move(kernel)) {}
  BINADE_TORCH_ARG(int64_t, in_channels);
  BINADE_TORCH_ARG(int64_t, out_channels);
  BINADE_TORCH_ARG(Sizes, kernel_size);
  BINADE_TORCH_ARG(Sizes, stride) = 1;
  BINADE_TORCH_ARG(Padding, padding) = 0;
  BINADE_TORCH_ARG(Sizes, output_padding) = 0;  // of transposed convolutions
  BINADE_TORCH_ARG(Sizes, dilation) = 1;
  BINADE_TORCH_ARG(int64_t, groups) = 1;
  BINADE_TORCH_ARG(bool, bias) = true;
};
using Conv1dOptions = ConvOptions<1>;
using Conv2dOptions = ConvOptions<2>;
using Conv3dOptions = ConvOptions<3>;
using ConvTranspose1dOptions = ConvOptions<1>;
using ConvTranspose2dOptions = ConvOptions<2>;
using ConvTranspose3dOptions = ConvOptions<3>;

struct BatchNormOptions {
  BatchNormOptions(int64_t features) : num_features_(features) {}  // NOLINT: implicit, as below
  BINADE_TORCH_ARG(int64_t, num_features);
  BINADE_TORCH_ARG(double, eps) = 1e-5;
  BINADE_TORCH_ARG(double, momentum) = 0.1;
  BINADE_TORCH_ARG(bool, affine) = true;
};
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;
using BatchNorm3dOptions = BatchNormOptions;

struct InstanceNormOptions {
  InstanceNormOptions(int64_t features) : num_features_(features) {}  // NOLINT
  BINADE_TORCH_ARG(int64_t, num_features);
  BINADE_TORCH_ARG(double, eps) = 1e-5;
  BINADE_TORCH_ARG(bool, affine) = false;
};
using InstanceNorm1dOptions = InstanceNormOptions;
using InstanceNorm2dOptions = InstanceNormOptions;
using InstanceNorm3dOptions = InstanceNormOptions;

struct LayerNormOptions {
  LayerNormOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}  // NOLINT
  LayerNormOptions(std::initializer_list<int64_t> shape) : normalized_shape_(shape) {}
  BINADE_TORCH_ARG(std::vector<int64_t>, normalized_shape);
  BINADE_TORCH_ARG(double, eps) = 1e-5;
  BINADE_TORCH_ARG(bool, elementwise_affine) = true;
};

struct GroupNormOptions {
  GroupNormOptions(int64_t groups, int64_t channels)
      : num_groups_(groups), num_channels_(channels) {}
  BINADE_TORCH_ARG(int64_t, num_groups);
  BINADE_TORCH_ARG(int64_t, num_channels);
  BINADE_TORCH_ARG(double, eps) = 1e-5;
  BINADE_TORCH_ARG(bool, affine) = true;
};

struct EmbeddingOptions {
  EmbeddingOptions(int64_t count, int64_t width) : num_embeddings_(count), embedding_dim_(width) {}
  BINADE_TORCH_ARG(int64_t, num_embeddings);
  BINADE_TORCH_ARG(int64_t, embedding_dim);
  BINADE_TORCH_ARG(std::optional<int64_t>, padding_idx) = {};  // its row is zero and stays so
};
struct EmbeddingFromPretrainedOptions {
  BINADE_TORCH_ARG(bool, freeze) = true;
};

struct DropoutOptions {
  DropoutOptions(double p = 0.5) : p_(p) {}  // NOLINT
  BINADE_TORCH_ARG(double, p);
  BINADE_TORCH_ARG(bool, inplace) = false;
};

template <int axes>
struct PoolOptions {
  PoolOptions(Sizes kernel) : kernel_size_(std::move(kernel)) {}  // NOLINT
  PoolOptions(int64_t kernel) : kernel_size_(kernel) {}           // NOLINT
  PoolOptions(std::initializer_list<int64_t> kernel) : kernel_size_(kernel) {}
  BINADE_TORCH_ARG(Sizes, kernel_size);
  BINADE_TORCH_ARG(Sizes, stride) = {};
  BINADE_TORCH_ARG(Sizes, padding) = 0;
  BINADE_TORCH_ARG(Sizes, dilation) = 1;  // of max pools; 1 alone is there
  BINADE_TORCH_ARG(bool, ceil_mode) = false;
  BINADE_TORCH_ARG(bool, count_include_pad) = true;
};
using MaxPool1dOptions = PoolOptions<1>;
using MaxPool2dOptions = PoolOptions<2>;
using MaxPool3dOptions = PoolOptions<3>;
using AvgPool1dOptions = PoolOptions<1>;
using AvgPool2dOptions = PoolOptions<2>;
using AvgPool3dOptions = PoolOptions<3>;

struct AdaptivePoolOptions {
  AdaptivePoolOptions(Sizes size) : output_size_(std::move(size)) {}  // NOLINT
  AdaptivePoolOptions(int64_t size) : output_size_(size) {}           // NOLINT
  AdaptivePoolOptions(std::initializer_list<int64_t> size) : output_size_(size) {}
  BINADE_TORCH_ARG(Sizes, output_size);
};
using AdaptiveAvgPool1dOptions = AdaptivePoolOptions;
using AdaptiveAvgPool2dOptions = AdaptivePoolOptions;
using AdaptiveAvgPool3dOptions = AdaptivePoolOptions;
using AdaptiveMaxPool1dOptions = AdaptivePoolOptions;
using AdaptiveMaxPool2dOptions = AdaptivePoolOptions;
using AdaptiveMaxPool3dOptions = AdaptivePoolOptions;

struct ReLUOptions {
  ReLUOptions(bool inplace = false) : inplace_(inplace) {}  // NOLINT
  BINADE_TORCH_ARG(bool, inplace);
};
struct LeakyReLUOptions {
  BINADE_TORCH_ARG(double, negative_slope) = 0.01;
  BINADE_TORCH_ARG(bool, inplace) = false;
};
struct ELUOptions {
  BINADE_TORCH_ARG(double, alpha) = 1;
  BINADE_TORCH_ARG(bool, inplace) = false;
};
struct GELUOptions {
  BINADE_TORCH_ARG(std::string, approximate) = "none";
};
struct SoftmaxOptions {
  SoftmaxOptions(int64_t dim) : dim_(dim) {}  // NOLINT
  BINADE_TORCH_ARG(int64_t, dim);
};
using LogSoftmaxOptions = SoftmaxOptions;
struct PReLUOptions {
  BINADE_TORCH_ARG(int64_t, num_parameters) = 1;
  BINADE_TORCH_ARG(double, init) = 0.25;
};
struct HardtanhOptions {
  BINADE_TORCH_ARG(double, min_val) = -1;
  BINADE_TORCH_ARG(double, max_val) = 1;
};
struct SoftplusOptions {
  BINADE_TORCH_ARG(double, beta) = 1;
  BINADE_TORCH_ARG(double, threshold) = 20;
};
struct CELUOptions {
  BINADE_TORCH_ARG(double, alpha) = 1;
};
struct GLUOptions {
  GLUOptions(int64_t dim = -1) : dim_(dim) {}  // NOLINT
  BINADE_TORCH_ARG(int64_t, dim);
};
struct ShrinkOptions {
  ShrinkOptions(double lambda = 0.5) : lambda_(lambda) {}  // NOLINT
  BINADE_TORCH_ARG(double, lambda);
};
using HardshrinkOptions = ShrinkOptions;
using SoftshrinkOptions = ShrinkOptions;
struct ThresholdOptions {
  ThresholdOptions(double threshold, double value) : threshold_(threshold), value_(value) {}
  BINADE_TORCH_ARG(double, threshold);
  BINADE_TORCH_ARG(double, value);
};
struct UnflattenOptions {
  UnflattenOptions(int64_t dim, std::vector<int64_t> sizes) : dim_(dim), sizes_(std::move(sizes)) {}
  BINADE_TORCH_ARG(int64_t, dim);
  BINADE_TORCH_ARG(std::vector<int64_t>, sizes);
};
struct PixelShuffleOptions {
  PixelShuffleOptions(int64_t factor) : upscale_factor_(factor) {}  // NOLINT
  BINADE_TORCH_ARG(int64_t, upscale_factor);
};
// Of ZeroPad2d and its kin: one number for all sides, or {left, right, top, bottom}.
struct PadOptions2d {
  PadOptions2d(int64_t side) : padding_(4, side) {}                             // NOLINT
  PadOptions2d(std::vector<int64_t> padding) : padding_(std::move(padding)) {}  // NOLINT
  PadOptions2d(std::initializer_list<int64_t> padding) : padding_(padding) {}
  BINADE_TORCH_ARG(std::vector<int64_t>, padding);
};
using ZeroPad2dOptions = PadOptions2d;
using ReflectionPad2dOptions = PadOptions2d;
using ReplicationPad2dOptions = PadOptions2d;
struct PairwiseDistanceOptions {
  BINADE_TORCH_ARG(double, p) = 2;
  BINADE_TORCH_ARG(double, eps) = 1e-6;
  BINADE_TORCH_ARG(bool, keepdim) = false;
};
struct FlattenOptions {
  BINADE_TORCH_ARG(int64_t, start_dim) = 1;
  BINADE_TORCH_ARG(int64_t, end_dim) = -1;
};

struct UpsampleOptions {
  BINADE_TORCH_ARG(std::optional<std::vector<int64_t>>, size) = {};
  BINADE_TORCH_ARG(std::optional<std::vector<double>>, scale_factor) = {};
  BINADE_TORCH_ARG(Resize, mode) = kNearest;
  BINADE_TORCH_ARG(std::optional<bool>, align_corners) = {};
};

template <bool has_relu>
struct RecurrentOptions {
  RecurrentOptions(int64_t in, int64_t hidden) : input_size_(in), hidden_size_(hidden) {}
  BINADE_TORCH_ARG(int64_t, input_size);
  BINADE_TORCH_ARG(int64_t, hidden_size);
  BINADE_TORCH_ARG(int64_t, num_layers) = 1;
  BINADE_TORCH_ARG(bool, bias) = true;
  BINADE_TORCH_ARG(bool, batch_first) = false;
  BINADE_TORCH_ARG(double, dropout) = 0;
  BINADE_TORCH_ARG(bool, bidirectional) = false;
  BINADE_TORCH_ARG(Nonlinearity, nonlinearity) = kTanh;  // of RNN
};
using LSTMOptions = RecurrentOptions<false>;
using GRUOptions = RecurrentOptions<false>;
using RNNOptions = RecurrentOptions<true>;
struct RNNCellOptions {
  RNNCellOptions(int64_t in, int64_t hidden) : input_size_(in), hidden_size_(hidden) {}
  BINADE_TORCH_ARG(int64_t, input_size);
  BINADE_TORCH_ARG(int64_t, hidden_size);
  BINADE_TORCH_ARG(bool, bias) = true;
};
using LSTMCellOptions = RNNCellOptions;
using GRUCellOptions = RNNCellOptions;

struct MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t width, int64_t heads) : embed_dim_(width), num_heads_(heads) {}
  BINADE_TORCH_ARG(int64_t, embed_dim);
  BINADE_TORCH_ARG(int64_t, num_heads);
  BINADE_TORCH_ARG(double, dropout) = 0;
  BINADE_TORCH_ARG(bool, bias) = true;
  BINADE_TORCH_ARG(int64_t, kdim) = 0;
  BINADE_TORCH_ARG(int64_t, vdim) = 0;
};
struct TransformerEncoderLayerOptions {
  TransformerEncoderLayerOptions(int64_t width, int64_t heads) : d_model_(width), nhead_(heads) {}
  BINADE_TORCH_ARG(int64_t, d_model);
  BINADE_TORCH_ARG(int64_t, nhead);
  BINADE_TORCH_ARG(int64_t, dim_feedforward) = 2048;
  BINADE_TORCH_ARG(double, dropout) = 0.1;

 public:
  // kReLU or kGELU, between the two linear layers.
  TransformerEncoderLayerOptions& activation(Nonlinearity function);
  TransformerEncoderLayerOptions& activation(GeluFunction) {
    is_gelu_ = true;
    return *this;
  }
  bool is_gelu() const { return is_gelu_; }

 private:
  bool is_gelu_ = false;
};
struct TransformerEncoderOptions {
  TransformerEncoderOptions(const TransformerEncoderLayerOptions& layer, int64_t layers)
      : encoder_layer_(layer), num_layers_(layers) {}
  BINADE_TORCH_ARG(TransformerEncoderLayerOptions, encoder_layer);
  BINADE_TORCH_ARG(int64_t, num_layers);
};

struct CosineSimilarityOptions {
  BINADE_TORCH_ARG(int64_t, dim) = 1;
  BINADE_TORCH_ARG(double, eps) = 1e-8;
};

// ---- losses ----

// Options of losses with a reduction alone.
struct LossOptions {
  LossOptions(Reduce reduction = kMean) : reduction_(reduction) {}  // NOLINT
  BINADE_TORCH_ARG(Reduce, reduction);
};
using MSELossOptions = LossOptions;
using L1LossOptions = LossOptions;
using SoftMarginLossOptions = LossOptions;

struct CrossEntropyLossOptions {
  BINADE_TORCH_ARG(Tensor, weight) = {};
  BINADE_TORCH_ARG(int64_t, ignore_index) = -100;
  BINADE_TORCH_ARG(Reduce, reduction) = kMean;
  BINADE_TORCH_ARG(double, label_smoothing) = 0;
};
struct NLLLossOptions {
  BINADE_TORCH_ARG(Tensor, weight) = {};
  BINADE_TORCH_ARG(int64_t, ignore_index) = -100;
  BINADE_TORCH_ARG(Reduce, reduction) = kMean;
};
struct SmoothL1LossOptions {
  SmoothL1LossOptions(Reduce reduction = kMean) : reduction_(reduction) {}  // NOLINT
  BINADE_TORCH_ARG(Reduce, reduction);
  BINADE_TORCH_ARG(double, beta) = 1;
};
struct HuberLossOptions {
  HuberLossOptions(Reduce reduction = kMean) : reduction_(reduction) {}  // NOLINT
  BINADE_TORCH_ARG(Reduce, reduction);
  BINADE_TORCH_ARG(double, delta) = 1;
};
struct BCELossOptions {
  BINADE_TORCH_ARG(Tensor, weight) = {};
  BINADE_TORCH_ARG(Reduce, reduction) = kMean;
};
struct BCEWithLogitsLossOptions {
  BINADE_TORCH_ARG(Tensor, weight) = {};
  BINADE_TORCH_ARG(Reduce, reduction) = kMean;
  BINADE_TORCH_ARG(Tensor, pos_weight) = {};
};
// A reduction, or the sum over the batch's size.
struct BatchReduction {
  BatchReduction(Reduce reduce) : reduce(reduce) {}                   // NOLINT
  BatchReduction(BatchMean) : reduce(Reduce::sum), by_batch(true) {}  // NOLINT
  Reduce reduce;
  bool by_batch = false;
};
struct KLDivLossOptions {
  KLDivLossOptions(BatchReduction reduction = kMean) : reduction_(reduction) {}  // NOLINT
  BINADE_TORCH_ARG(BatchReduction, reduction);
  BINADE_TORCH_ARG(bool, log_target) = false;
};
// Losses with a margin.
template <int at_first>
struct MarginOptions {
  BINADE_TORCH_ARG(double, margin) = at_first;
  BINADE_TORCH_ARG(Reduce, reduction) = kMean;
};
using MarginRankingLossOptions = MarginOptions<0>;
using HingeEmbeddingLossOptions = MarginOptions<1>;
using CosineEmbeddingLossOptions = MarginOptions<0>;
struct MultiMarginLossOptions {
  BINADE_TORCH_ARG(double, p) = 1;
  BINADE_TORCH_ARG(double, margin) = 1;
  BINADE_TORCH_ARG(Tensor, weight) = {};
  BINADE_TORCH_ARG(Reduce, reduction) = kMean;
};
struct PoissonNLLLossOptions {
  BINADE_TORCH_ARG(bool, log_input) = true;
  BINADE_TORCH_ARG(bool, full) = false;
  BINADE_TORCH_ARG(double, eps) = 1e-8;
  BINADE_TORCH_ARG(Reduce, reduction) = kMean;
};
struct CTCLossOptions {
  BINADE_TORCH_ARG(int64_t, blank) = 0;
  BINADE_TORCH_ARG(Reduce, reduction) = kMean;
  BINADE_TORCH_ARG(bool, zero_infinity) = false;
};
struct TripletMarginLossOptions {
  BINADE_TORCH_ARG(double, margin) = 1;
  BINADE_TORCH_ARG(Reduce, reduction) = kMean;
};

namespace functional {

using ReLUFuncOptions = ReLUOptions;
using LeakyReLUFuncOptions = LeakyReLUOptions;
using ELUFuncOptions = ELUOptions;
using GELUFuncOptions = GELUOptions;
using SoftmaxFuncOptions = SoftmaxOptions;
using LogSoftmaxFuncOptions = SoftmaxOptions;
using HardtanhFuncOptions = HardtanhOptions;
using MaxPool1dFuncOptions = MaxPool1dOptions;
using MaxPool2dFuncOptions = MaxPool2dOptions;
using MaxPool3dFuncOptions = MaxPool3dOptions;
using AvgPool1dFuncOptions = AvgPool1dOptions;
using AvgPool2dFuncOptions = AvgPool2dOptions;
using AvgPool3dFuncOptions = AvgPool3dOptions;
using AdaptiveAvgPool1dFuncOptions = AdaptivePoolOptions;
using AdaptiveAvgPool2dFuncOptions = AdaptivePoolOptions;
using AdaptiveMaxPool2dFuncOptions = AdaptivePoolOptions;
using InterpolateFuncOptions = UpsampleOptions;
using CosineSimilarityFuncOptions = CosineSimilarityOptions;
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
using NLLLossFuncOptions = NLLLossOptions;
using MSELossFuncOptions = LossOptions;
using L1LossFuncOptions = LossOptions;
using SmoothL1LossFuncOptions = SmoothL1LossOptions;
using HuberLossFuncOptions = HuberLossOptions;
using BinaryCrossEntropyFuncOptions = BCELossOptions;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
using KLDivFuncOptions = KLDivLossOptions;
using TripletMarginLossFuncOptions = TripletMarginLossOptions;
using MarginRankingLossFuncOptions = MarginRankingLossOptions;
using HingeEmbeddingLossFuncOptions = HingeEmbeddingLossOptions;
using CosineEmbeddingLossFuncOptions = CosineEmbeddingLossOptions;
using MultiMarginLossFuncOptions = MultiMarginLossOptions;
using PoissonNLLLossFuncOptions = PoissonNLLLossOptions;
using CTCLossFuncOptions = CTCLossOptions;
using SoftMarginLossFuncOptions = SoftMarginLossOptions;
using SoftplusFuncOptions = SoftplusOptions;
using CELUFuncOptions = CELUOptions;
using GLUFuncOptions = GLUOptions;
using HardshrinkFuncOptions = ShrinkOptions;
using SoftshrinkFuncOptions = ShrinkOptions;
using ThresholdFuncOptions = ThresholdOptions;
using SoftminFuncOptions = SoftmaxOptions;
using PairwiseDistanceFuncOptions = PairwiseDistanceOptions;
using PixelShuffleFuncOptions = PixelShuffleOptions;

template <int axes>
struct ConvFuncOptions {
  BINADE_TORCH_ARG(Tensor, bias) = {};
  BINADE_TORCH_ARG(Sizes, stride) = 1;
  BINADE_TORCH_ARG(Padding, padding) = 0;
  BINADE_TORCH_ARG(Sizes, output_padding) = 0;
  BINADE_TORCH_ARG(Sizes, dilation) = 1;
  BINADE_TORCH_ARG(int64_t, groups) = 1;
};
using Conv1dFuncOptions = ConvFuncOptions<1>;
using Conv2dFuncOptions = ConvFuncOptions<2>;
using Conv3dFuncOptions = ConvFuncOptions<3>;
using ConvTranspose1dFuncOptions = ConvFuncOptions<1>;
using ConvTranspose2dFuncOptions = ConvFuncOptions<2>;
using ConvTranspose3dFuncOptions = ConvFuncOptions<3>;

struct DropoutFuncOptions {
  BINADE_TORCH_ARG(double, p) = 0.5;
  BINADE_TORCH_ARG(bool, training) = false;
  BINADE_TORCH_ARG(bool, inplace) = false;
};
using Dropout2dFuncOptions = DropoutFuncOptions;
using Dropout3dFuncOptions = DropoutFuncOptions;
struct GumbelSoftmaxFuncOptions {
  BINADE_TORCH_ARG(double, tau) = 1;
  BINADE_TORCH_ARG(bool, hard) = false;
  BINADE_TORCH_ARG(int64_t, dim) = -1;
};
struct InstanceNormFuncOptions {
  BINADE_TORCH_ARG(Tensor, weight) = {};
  BINADE_TORCH_ARG(Tensor, bias) = {};
  BINADE_TORCH_ARG(double, eps) = 1e-5;
};
struct FoldFuncOptions {
  FoldFuncOptions(Sizes size, Sizes kernel)
      : output_size_(std::move(size)), kernel_size_(std::move(kernel)) {}
  BINADE_TORCH_ARG(Sizes, output_size);
  BINADE_TORCH_ARG(Sizes, kernel_size);
  BINADE_TORCH_ARG(Sizes, dilation) = 1;
  BINADE_TORCH_ARG(Sizes, padding) = 0;
  BINADE_TORCH_ARG(Sizes, stride) = 1;
};
struct LayerNormFuncOptions {
  LayerNormFuncOptions(std::vector<int64_t> shape)
      : normalized_shape_(std::move(shape)) {}  // NOLINT
  LayerNormFuncOptions(std::initializer_list<int64_t> shape) : normalized_shape_(shape) {}
  BINADE_TORCH_ARG(std::vector<int64_t>, normalized_shape);
  BINADE_TORCH_ARG(Tensor, weight) = {};
  BINADE_TORCH_ARG(Tensor, bias) = {};
  BINADE_TORCH_ARG(double, eps) = 1e-5;
};
struct BatchNormFuncOptions {
  BINADE_TORCH_ARG(Tensor, weight) = {};
  BINADE_TORCH_ARG(Tensor, bias) = {};
  BINADE_TORCH_ARG(bool, training) = false;
  BINADE_TORCH_ARG(double, momentum) = 0.1;
  BINADE_TORCH_ARG(double, eps) = 1e-5;
};
struct GroupNormFuncOptions {
  GroupNormFuncOptions(int64_t groups) : num_groups_(groups) {}  // NOLINT
  BINADE_TORCH_ARG(int64_t, num_groups);
  BINADE_TORCH_ARG(Tensor, weight) = {};
  BINADE_TORCH_ARG(Tensor, bias) = {};
  BINADE_TORCH_ARG(double, eps) = 1e-5;
};
struct NormalizeFuncOptions {
  BINADE_TORCH_ARG(double, p) = 2;
  BINADE_TORCH_ARG(int64_t, dim) = 1;
  BINADE_TORCH_ARG(double, eps) = 1e-12;
};
struct PadFuncOptions {
  PadFuncOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}  // NOLINT
  PadFuncOptions(std::initializer_list<int64_t> pad) : pad_(pad) {}
  BINADE_TORCH_ARG(std::vector<int64_t>, pad);
  BINADE_TORCH_ARG(PadMode, mode) = kConstant;
  BINADE_TORCH_ARG(double, value) = 0;
};
struct UnfoldFuncOptions {
  UnfoldFuncOptions(Sizes kernel) : kernel_size_(std::move(kernel)) {}  // NOLINT
  UnfoldFuncOptions(int64_t kernel) : kernel_size_(kernel) {}           // NOLINT
  UnfoldFuncOptions(std::initializer_list<int64_t> kernel) : kernel_size_(kernel) {}
  BINADE_TORCH_ARG(Sizes, kernel_size);
  BINADE_TORCH_ARG(Sizes, dilation) = 1;
  BINADE_TORCH_ARG(Sizes, padding) = 0;
  BINADE_TORCH_ARG(Sizes, stride) = 1;
};
struct GridSampleFuncOptions {
  BINADE_TORCH_ARG(std::optional<bool>, align_corners) = {};
};

}  // namespace functional
}  // namespace nn
}  // namespace binade::torch
