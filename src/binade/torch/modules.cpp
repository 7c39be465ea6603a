#include "binade/torch/modules.h"

#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/nn/init.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/recurrent.h"
#include "binade/ops/shape/shape.h"
#include "binade/torch/names.h"

namespace binade::torch::nn {
namespace {

template <class Options>
binade::nn::RecurrentConfig plain(const Options& options) {
  return {.in = options.input_size(),
          .hidden = options.hidden_size(),
          .layers = options.num_layers(),
          .bias = options.bias(),
          .batch_first = options.batch_first(),
          .dropout = options.dropout(),
          .bidirectional = options.bidirectional()};
}

// The padding of a convolution that has no weight yet.
template <int axes>
std::vector<int64_t> padding_for(const ConvOptions<axes>& options) {
  Shape shape = Shape::filled(2 + axes, 1);
  const Sizes& kernel = options.kernel_size();
  for (int i = 0; i < axes; ++i)
    shape[2 + i] = kernel.at(kernel.size() == 1 ? 0 : static_cast<size_t>(i));
  return functional::padding_of(options.padding(), Tensor::empty(shape, DType::f32, Device::meta()),
                                options.stride(), options.dilation());
}

Tensor uniform(const Shape& shape, double bound) {
  return binade::nn::init::uniform(shape, bound, {});
}

}  // namespace

LinearImpl::LinearImpl(const LinearOptions& options)
    : Callable(binade::nn::LinearConfig{
          .in = options.in_features(), .out = options.out_features(), .bias = options.bias()}),
      options(options) {}

BilinearImpl::BilinearImpl(const BilinearOptions& options) : options(options) {
  const double bound = 1 / std::sqrt(static_cast<double>(options.in1_features()));
  weight = register_parameter(
      "weight",
      uniform({options.out_features(), options.in1_features(), options.in2_features()}, bound));
  bias = register_parameter("bias",
                            options.bias() ? uniform({options.out_features()}, bound) : Tensor());
}

Tensor BilinearImpl::forward(const Tensor& a, const Tensor& b) {
  const auto scope = enter();
  return bilinear(a, b, weight, bias);
}

template <int axes>
ConvImpl<axes>::ConvImpl(const ConvOptions<axes>& options)
    : Callable<binade::nn::Conv<axes>>(
          binade::nn::ConvConfig{.in = options.in_channels(),
                                 .out = options.out_channels(),
                                 .kernel = options.kernel_size(),
                                 .options = {.stride = options.stride(),
                                             .padding = padding_for(options),
                                             .dilation = options.dilation(),
                                             .groups = options.groups()},
                                 .bias = options.bias()}) {}
template struct ConvImpl<1>;
template struct ConvImpl<2>;
template struct ConvImpl<3>;

template <int axes>
ConvTransposeImpl<axes>::ConvTransposeImpl(const ConvOptions<axes>& options)
    : Callable<binade::nn::ConvTranspose<axes>>(
          binade::nn::ConvTransposeConfig{.in = options.in_channels(),
                                          .out = options.out_channels(),
                                          .kernel = options.kernel_size(),
                                          .options = {.stride = options.stride(),
                                                      .padding = options.padding().sizes,
                                                      .output_padding = options.output_padding(),
                                                      .dilation = options.dilation(),
                                                      .groups = options.groups()},
                                          .bias = options.bias()}) {}
template struct ConvTransposeImpl<1>;
template struct ConvTransposeImpl<2>;
template struct ConvTransposeImpl<3>;

BatchNormImpl::BatchNormImpl(const BatchNormOptions& options)
    : Callable(options.num_features(), options.eps(), options.momentum()) {
  if (!options.affine()) weight = bias = Tensor();
}

LayerNormImpl::LayerNormImpl(const LayerNormOptions& options) : options(options) {
  const Shape shape(options.normalized_shape());
  const bool affine = options.elementwise_affine();
  weight = register_parameter("weight", affine ? ones(shape) : Tensor());
  bias = register_parameter("bias", affine ? zeros(shape) : Tensor());
}

Tensor LayerNormImpl::forward(const Tensor& x) {
  const auto scope = enter();
  return functional::layer_norm(x, functional::LayerNormFuncOptions(options.normalized_shape())
                                       .weight(weight)
                                       .bias(bias)
                                       .eps(options.eps()));
}

GroupNormImpl::GroupNormImpl(const GroupNormOptions& options)
    : Callable(options.num_groups(), options.num_channels(), options.eps()) {
  if (!options.affine()) weight = bias = Tensor();
}

PaddedEmbedding::PaddedEmbedding(const EmbeddingOptions& options)
    : Embedding(options.num_embeddings(), options.embedding_dim()), options(options) {
  if (!options.padding_idx()) return;
  const NoGrad no_grad;
  binade::fill_(weight[*options.padding_idx()], 0);
}

Tensor PaddedEmbedding::forward(const Tensor& index) {
  const Tensor rows = binade::nn::Embedding::forward(index);
  if (!options.padding_idx()) return rows;
  int64_t padding = *options.padding_idx();
  if (padding < 0) padding += options.num_embeddings();
  return where(unsqueeze(index == padding, -1), rows.detach(), rows);
}

Embedding Embedding::from_pretrained(const Tensor& weights,
                                     const EmbeddingFromPretrainedOptions& options) {
  Embedding result(EmbeddingOptions(weights.size(0), weights.size(1)));
  result->weight.set_data(weights.detach());
  result->weight.requires_grad_(!options.freeze());
  return result;
}

Tensor unflattened(const Tensor& x, const UnflattenOptions& options) {
  return unflatten(x, options.dim(), options.sizes());
}

LSTMImpl::LSTMImpl(const LSTMOptions& options) : binade::nn::LSTM(plain(options)) {}

std::tuple<Tensor, LSTMState> LSTMImpl::forward(const Tensor& x,
                                                const std::optional<LSTMState>& state) {
  binade::nn::RecurrentState initial;
  if (state) std::tie(initial.hidden, initial.cell) = *state;
  const binade::nn::RecurrentResult result = (*this)(x, initial);
  return {result.output, {result.state.hidden, result.state.cell}};
}

GRUImpl::GRUImpl(const GRUOptions& options) : binade::nn::GRU(plain(options)) {}

std::tuple<Tensor, Tensor> GRUImpl::forward(const Tensor& x, const Tensor& state) {
  const binade::nn::RecurrentResult result = (*this)(x, {.hidden = state, .cell = {}});
  return {result.output, result.state.hidden};
}

RNNImpl::RNNImpl(const RNNOptions& options)
    : binade::nn::RNN(plain(options), options.nonlinearity() == kReLU
                                          ? binade::nn::RnnNonlinearity::relu
                                          : binade::nn::RnnNonlinearity::tanh) {
  if (options.nonlinearity() != kReLU && options.nonlinearity() != kTanh)
    fail("RNN", {.argument = "nonlinearity", .expected = "kTanh or kReLU", .found = "another"});
}

std::tuple<Tensor, Tensor> RNNImpl::forward(const Tensor& x, const Tensor& state) {
  const binade::nn::RecurrentResult result = (*this)(x, {.hidden = state, .cell = {}});
  return {result.output, result.state.hidden};
}

CellImpl::CellImpl(const RNNCellOptions& options, int64_t gates) {
  const int64_t hidden = options.hidden_size(), height = gates * hidden;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  weight_ih = register_parameter("weight_ih", uniform({height, options.input_size()}, bound));
  weight_hh = register_parameter("weight_hh", uniform({height, hidden}, bound));
  const auto bias = [&] { return options.bias() ? uniform({height}, bound) : Tensor(); };
  bias_ih = register_parameter("bias_ih", bias());
  bias_hh = register_parameter("bias_hh", bias());
}

Tensor CellImpl::initial(const Tensor& x) const {
  return zeros({x.size(0), weight_hh.size(1)}, x.dtype(), x.device());
}

LSTMState LSTMCellImpl::forward(const Tensor& x, const std::optional<LSTMState>& state) {
  const auto scope = enter();
  const Tensor hidden = state ? std::get<0>(*state) : initial(x);
  const Tensor cell = state ? std::get<1>(*state) : initial(x);
  const auto [next, next_cell] =
      lstm_cell(x, hidden, cell, {weight_ih, weight_hh, bias_ih, bias_hh});
  return {next, next_cell};
}

Tensor GRUCellImpl::forward(const Tensor& x, const Tensor& state) {
  const auto scope = enter();
  return gru_cell(x, state.defined() ? state : initial(x),
                  {weight_ih, weight_hh, bias_ih, bias_hh});
}

Tensor RNNCellImpl::forward(const Tensor& x, const Tensor& state) {
  const auto scope = enter();
  return rnn_tanh_cell(x, state.defined() ? state : initial(x),
                       {weight_ih, weight_hh, bias_ih, bias_hh});
}

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& options)
    : binade::nn::MaskedAttention({.width = options.embed_dim(),
                                   .heads = options.num_heads(),
                                   .key_width = options.kdim(),
                                   .value_width = options.vdim(),
                                   .bias = options.bias(),
                                   .dropout = options.dropout()}) {}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key,
                                                           const Tensor& value,
                                                           const Tensor& key_padding_mask,
                                                           bool need_weights,
                                                           const Tensor& attn_mask) {
  const binade::nn::AttentionMasks masks{.key_padding = key_padding_mask, .attention = attn_mask};
  if (!need_weights) return {(*this)(query, key, value, masks), Tensor()};
  const binade::nn::AttentionResult result = with_weights(query, key, value, masks);
  return {result.output, result.weights};
}

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(
    const TransformerEncoderLayerOptions& options)
    : options(options),
      self_attn(
          MultiheadAttentionOptions(options.d_model(), options.nhead()).dropout(options.dropout())),
      linear1(options.d_model(), options.dim_feedforward()),
      linear2(options.dim_feedforward(), options.d_model()),
      norm1(LayerNormOptions({options.d_model()})),
      norm2(LayerNormOptions({options.d_model()})),
      dropout(options.dropout()),
      dropout1(options.dropout()),
      dropout2(options.dropout()) {
  register_module("self_attn", self_attn);
  register_module("linear1", linear1);
  register_module("dropout", dropout);
  register_module("linear2", linear2);
  register_module("norm1", norm1);
  register_module("norm2", norm2);
  register_module("dropout1", dropout1);
  register_module("dropout2", dropout2);
}

Tensor TransformerEncoderLayerImpl::forward(const Tensor& x, const Tensor& mask,
                                            const Tensor& key_padding_mask) {
  const auto scope = enter();
  const Tensor attended = std::get<0>(self_attn(x, x, x, key_padding_mask, false, mask));
  const Tensor y = norm1(x + dropout1(attended));
  const Tensor inner = linear1(y);
  const Tensor hidden = dropout(options.is_gelu() ? binade::gelu(inner) : binade::relu(inner));
  return norm2(y + dropout2(linear2(hidden)));
}

TransformerEncoderLayerOptions& TransformerEncoderLayerOptions::activation(Nonlinearity function) {
  if (function != kReLU) {
    fail("TransformerEncoderLayerOptions",
         {.argument = "activation", .expected = "kReLU or kGELU", .found = "another"});
  }
  is_gelu_ = false;
  return *this;
}

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderOptions& options) {
  for (int64_t i = 0; i < options.num_layers(); ++i)
    layers->push_back(TransformerEncoderLayer(options.encoder_layer()));
  register_module("layers", layers);
}

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderLayer& layer, int64_t count)
    : TransformerEncoderImpl(TransformerEncoderOptions(layer->options, count)) {
  const StateDict values = layer->state_dict();
  for (const std::shared_ptr<Module>& one : *layers) one->load_state_dict(values);
}

Tensor TransformerEncoderImpl::forward(const Tensor& x, const Tensor& mask,
                                       const Tensor& key_padding_mask) {
  const auto scope = enter();
  Tensor y = x;
  for (const std::shared_ptr<Module>& one : *layers)
    y = one->as<TransformerEncoderLayer>()->forward(y, mask, key_padding_mask);
  return y;
}

}  // namespace binade::torch::nn
