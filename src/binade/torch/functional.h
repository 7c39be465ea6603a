#pragma once

#include "binade/ops/composed.h"
#include "binade/ops/create/categorical.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/norm/softmax.h"
#include "binade/torch/options.h"

// torch::nn::functional. Options that Binade's ops lack are refused, not ignored.
namespace binade::torch::nn::functional {

// The padding of a convolution, as sizes.
std::vector<int64_t> padding_of(const Padding& padding, const Tensor& weight, const Sizes& stride,
                                const Sizes& dilation);

Tensor relu(const Tensor& x, const ReLUFuncOptions& options = {});
Tensor leaky_relu(const Tensor& x, const LeakyReLUFuncOptions& options = {});
Tensor leaky_relu(const Tensor& x, double negative_slope);
Tensor elu(const Tensor& x, const ELUFuncOptions& options = {});
Tensor gelu(const Tensor& x, const GELUFuncOptions& options = {});
Tensor hardtanh(const Tensor& x, const HardtanhFuncOptions& options = {});
Tensor softmax(const Tensor& x, const SoftmaxFuncOptions& options);
Tensor log_softmax(const Tensor& x, const LogSoftmaxFuncOptions& options);
using binade::hardsigmoid;
using binade::hardswish;
using binade::logsigmoid;
using binade::mish;
using binade::one_hot;
using binade::prelu;
using binade::relu6;
using binade::selu;
using binade::sigmoid;
using binade::silu;
using binade::softsign;
using binade::tanh;

Tensor softplus(const Tensor& x, const SoftplusFuncOptions& options = {});
Tensor softmin(const Tensor& x, const SoftminFuncOptions& options);
Tensor celu(const Tensor& x, const CELUFuncOptions& options = {});
// The first half of an axis times the sigmoid of the second.
Tensor glu(const Tensor& x, const GLUFuncOptions& options = {});
Tensor hardshrink(const Tensor& x, const HardshrinkFuncOptions& options = {});
Tensor softshrink(const Tensor& x, const SoftshrinkFuncOptions& options = {});
Tensor tanhshrink(const Tensor& x);
Tensor threshold(const Tensor& x, const ThresholdFuncOptions& options);
// Softmax of logits with Gumbel noise; hard: ones and zeros, with the gradient of the soft ones.
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& options = {});

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});
Tensor embedding(const Tensor& index, const Tensor& weight);
Tensor conv1d(const Tensor& x, const Tensor& weight, const Conv1dFuncOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv2dFuncOptions& options = {});
Tensor conv3d(const Tensor& x, const Tensor& weight, const Conv3dFuncOptions& options = {});
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose1dFuncOptions& options = {});
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose2dFuncOptions& options = {});
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose3dFuncOptions& options = {});
Tensor max_pool1d(const Tensor& x, const MaxPool1dFuncOptions& options);
Tensor max_pool2d(const Tensor& x, const MaxPool2dFuncOptions& options);
Tensor max_pool3d(const Tensor& x, const MaxPool3dFuncOptions& options);
Tensor avg_pool1d(const Tensor& x, const AvgPool1dFuncOptions& options);
Tensor avg_pool2d(const Tensor& x, const AvgPool2dFuncOptions& options);
Tensor avg_pool3d(const Tensor& x, const AvgPool3dFuncOptions& options);
Tensor adaptive_avg_pool1d(const Tensor& x, const AdaptiveAvgPool1dFuncOptions& options);
Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveAvgPool2dFuncOptions& options);
Tensor adaptive_max_pool2d(const Tensor& x, const AdaptiveMaxPool2dFuncOptions& options);
Tensor interpolate(const Tensor& x, const InterpolateFuncOptions& options);
Tensor pad(const Tensor& x, const PadFuncOptions& options);
Tensor pixel_shuffle(const Tensor& x, const PixelShuffleFuncOptions& options);
Tensor fold(const Tensor& x, const FoldFuncOptions& options);
Tensor unfold(const Tensor& x, const UnfoldFuncOptions& options);
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleFuncOptions& options = {});

Tensor dropout(const Tensor& x, const DropoutFuncOptions& options = {});
// Whole channels [n, c, ...].
Tensor dropout2d(const Tensor& x, const DropoutFuncOptions& options = {});
Tensor layer_norm(const Tensor& x, const LayerNormFuncOptions& options);
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& options = {});
Tensor group_norm(const Tensor& x, const GroupNormFuncOptions& options);
Tensor instance_norm(const Tensor& x, const InstanceNormFuncOptions& options = {});
Tensor normalize(const Tensor& x, const NormalizeFuncOptions& options = {});
Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                         const CosineSimilarityFuncOptions& options = {});
// The norm of a - b + eps along the last axis.
Tensor pairwise_distance(const Tensor& a, const Tensor& b,
                         const PairwiseDistanceFuncOptions& options = {});
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps = 1e-6);

// The classes are axis 1 of [n, classes, ...].
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyFuncOptions& options = {});
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const NLLLossFuncOptions& options = {});
Tensor mse_loss(const Tensor& x, const Tensor& target, const MSELossFuncOptions& options = {});
Tensor l1_loss(const Tensor& x, const Tensor& target, const L1LossFuncOptions& options = {});
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target,
                      const SmoothL1LossFuncOptions& options = {});
Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberLossFuncOptions& options = {});
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target,
                            const BinaryCrossEntropyFuncOptions& options = {});
Tensor binary_cross_entropy_with_logits(
    const Tensor& logits, const Tensor& target,
    const BinaryCrossEntropyWithLogitsFuncOptions& options = {});
Tensor kl_div(const Tensor& x, const Tensor& target, const KLDivFuncOptions& options = {});
Tensor soft_margin_loss(const Tensor& x, const Tensor& y, const LossOptions& options = {});
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossFuncOptions& options = {});
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                           const MarginRankingLossFuncOptions& options = {});
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y,
                            const HingeEmbeddingLossFuncOptions& options = {});
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                             const CosineEmbeddingLossFuncOptions& options = {});
Tensor multi_margin_loss(const Tensor& x, const Tensor& target,
                         const MultiMarginLossFuncOptions& options = {});
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target,
                        const PoissonNLLLossFuncOptions& options = {});
// Lengths are i64 [batch]; targets [batch, longest].
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossFuncOptions& options = {});

}  // namespace binade::torch::nn::functional
