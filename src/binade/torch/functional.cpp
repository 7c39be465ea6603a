#include "binade/torch/functional.h"

#include <cmath>

#include "binade/ops/conv/conv.h"
#include "binade/ops/conv/pool.h"
#include "binade/ops/conv/sample.h"
#include "binade/ops/conv/unfold.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/loss/margin_loss.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/shape/shape.h"

namespace binade::torch::nn::functional {
namespace {

// y, which x becomes if the options say so.
Tensor kept_or_written(const Tensor& x, const Tensor& y, bool inplace) {
  if (!inplace) return y;
  overwrite_(x, y);
  return x;
}

template <class Options>
binade::ConvOptions plain(const Options& options) {
  return {.stride = options.stride(),
          .padding = options.padding(),
          .dilation = options.dilation(),
          .groups = options.groups()};
}

template <class Options>
ConvTransposeOptions transposed(const Options& options) {
  return {.stride = options.stride(),
          .padding = options.padding(),
          .output_padding = options.output_padding(),
          .dilation = options.dilation(),
          .groups = options.groups()};
}

template <int axes>
binade::PoolOptions plain(const nn::PoolOptions<axes>& options) {
  return {.kernel = options.kernel_size(),
          .stride = options.stride(),
          .padding = options.padding(),
          .count_padding = options.count_include_pad(),
          .ceil_mode = options.ceil_mode()};
}

// Images without a batch, [c, spatial...], have one of size 1 while f runs.
template <class F>
Tensor in_batch(const Tensor& x, int rank, F&& f) {
  return x.rank() == rank ? squeeze(f(unsqueeze(x, 0)), 0) : f(x);
}

// x [n, classes, ...] with the classes last.
Tensor classes_last(const Tensor& x) { return x.rank() > 2 ? movedim(x, 1, -1) : x; }

// The axis of classes: the second one, if there is one.
int64_t classes_at(const Tensor& x) { return x.rank() < 2 ? 0 : 1; }

Tensor rows(const Tensor& x, int64_t classes) { return reshape(x, {-1, classes}); }

Tensor in_shape(const Tensor& losses, Reduce reduce, const Shape& shape) {
  return reduce == Reduce::none ? reshape(losses, shape) : losses;
}

}  // namespace

Tensor relu(const Tensor& x, const ReLUFuncOptions& options) {
  return kept_or_written(x, binade::relu(x), options.inplace());
}
Tensor leaky_relu(const Tensor& x, const LeakyReLUFuncOptions& options) {
  return kept_or_written(x, binade::leaky_relu(x, options.negative_slope()), options.inplace());
}
Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return binade::leaky_relu(x, negative_slope);
}
Tensor elu(const Tensor& x, const ELUFuncOptions& options) {
  return kept_or_written(x, binade::elu(x, options.alpha()), options.inplace());
}
Tensor gelu(const Tensor& x, const GELUFuncOptions& options) {
  if (options.approximate() != "none" && options.approximate() != "tanh") {
    fail("gelu",
         {.argument = "approximate", .expected = "none or tanh", .found = options.approximate()});
  }
  return binade::gelu(x, options.approximate() == "tanh" ? Gelu::tanh : Gelu::erf);
}
Tensor hardtanh(const Tensor& x, const HardtanhFuncOptions& options) {
  return binade::hardtanh(x, options.min_val(), options.max_val());
}
Tensor softmax(const Tensor& x, const SoftmaxFuncOptions& options) {
  return binade::softmax(x, options.dim());
}
Tensor log_softmax(const Tensor& x, const LogSoftmaxFuncOptions& options) {
  return binade::log_softmax(x, options.dim());
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return binade::linear(x, weight, bias);
}
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
  return binade::bilinear(a, b, weight, bias);
}
Tensor embedding(const Tensor& index, const Tensor& weight) {
  return binade::embedding(weight, index);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Conv1dFuncOptions& options) {
  return in_batch(x, 2, [&](const Tensor& batch) {
    return binade::conv1d(batch, weight, options.bias(), plain(options));
  });
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv2dFuncOptions& options) {
  return in_batch(x, 3, [&](const Tensor& batch) {
    return binade::conv2d(batch, weight, options.bias(), plain(options));
  });
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Conv3dFuncOptions& options) {
  return in_batch(x, 4, [&](const Tensor& batch) {
    return binade::conv3d(batch, weight, options.bias(), plain(options));
  });
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose1dFuncOptions& options) {
  return binade::conv_transpose1d(x, weight, options.bias(), transposed(options));
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose2dFuncOptions& options) {
  return binade::conv_transpose2d(x, weight, options.bias(), transposed(options));
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose3dFuncOptions& options) {
  return binade::conv_transpose3d(x, weight, options.bias(), transposed(options));
}

Tensor max_pool1d(const Tensor& x, const MaxPool1dFuncOptions& options) {
  return in_batch(x, 2, [&](const Tensor& batch) { return max_pool(batch, plain(options)); });
}
Tensor max_pool2d(const Tensor& x, const MaxPool2dFuncOptions& options) {
  return in_batch(x, 3, [&](const Tensor& batch) { return max_pool(batch, plain(options)); });
}
Tensor max_pool3d(const Tensor& x, const MaxPool3dFuncOptions& options) {
  return in_batch(x, 4, [&](const Tensor& batch) { return max_pool(batch, plain(options)); });
}
Tensor avg_pool1d(const Tensor& x, const AvgPool1dFuncOptions& options) {
  return in_batch(x, 2, [&](const Tensor& batch) { return avg_pool(batch, plain(options)); });
}
Tensor avg_pool2d(const Tensor& x, const AvgPool2dFuncOptions& options) {
  return in_batch(x, 3, [&](const Tensor& batch) { return avg_pool(batch, plain(options)); });
}
Tensor avg_pool3d(const Tensor& x, const AvgPool3dFuncOptions& options) {
  return in_batch(x, 4, [&](const Tensor& batch) { return avg_pool(batch, plain(options)); });
}
Tensor adaptive_avg_pool1d(const Tensor& x, const AdaptiveAvgPool1dFuncOptions& options) {
  return adaptive_avg_pool(x, options.output_size());
}
Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveAvgPool2dFuncOptions& options) {
  return in_batch(
      x, 3, [&](const Tensor& batch) { return adaptive_avg_pool(batch, options.output_size()); });
}
Tensor adaptive_max_pool2d(const Tensor& x, const AdaptiveMaxPool2dFuncOptions& options) {
  return in_batch(
      x, 3, [&](const Tensor& batch) { return adaptive_max_pool(batch, options.output_size()); });
}

Tensor interpolate(const Tensor& x, const InterpolateFuncOptions& options) {
  if (options.align_corners().value_or(false)) {
    fail("interpolate", {.argument = "align_corners", .expected = "false", .found = "true"});
  }
  if (options.size().has_value() == options.scale_factor().has_value()) {
    fail("interpolate", {.argument = "size, scale_factor",
                         .expected = "one of them",
                         .found = options.size() ? "both" : "none"});
  }
  const auto size_of_axis = [&](size_t axis) -> int64_t {
    if (options.size()) return options.size()->at(options.size()->size() == 1 ? 0 : axis);
    const std::vector<double>& factors = *options.scale_factor();
    const auto size = static_cast<double>(x.size(static_cast<int64_t>(axis) + 2));
    return static_cast<int64_t>(std::floor(size * factors.at(factors.size() == 1 ? 0 : axis)));
  };
  const int64_t height = size_of_axis(0), width = size_of_axis(1);
  return options.mode() == Resize::nearest ? upsample_nearest2d(x, height, width)
                                           : upsample_bilinear2d(x, height, width);
}

Tensor pad(const Tensor& x, const PadFuncOptions& options) {
  return binade::pad(x, options.pad(), {.mode = options.mode(), .value = options.value()});
}

Tensor unfold(const Tensor& x, const UnfoldFuncOptions& options) {
  return binade::unfold(x, {.kernel = options.kernel_size(),
                            .stride = options.stride(),
                            .padding = options.padding(),
                            .dilation = options.dilation()});
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleFuncOptions& options) {
  if (options.align_corners().value_or(false)) {
    fail("grid_sample", {.argument = "align_corners", .expected = "false", .found = "true"});
  }
  return grid_sampler(x, grid);
}

Tensor dropout(const Tensor& x, const DropoutFuncOptions& options) {
  return kept_or_written(x, binade::dropout(x, options.p(), options.training()), options.inplace());
}

Tensor dropout2d(const Tensor& x, const DropoutFuncOptions& options) {
  if (x.rank() < 2)
    fail("dropout2d", {.argument = "x", .expected = "[n, c, ...]", .found = describe(x)});
  Shape shape = Shape::filled(x.rank(), 1);
  shape[0] = x.shape()[0], shape[1] = x.shape()[1];
  const Tensor mask =
      binade::dropout(ones(shape, x.dtype(), x.device()), options.p(), options.training());
  return kept_or_written(x, x * mask, options.inplace());
}

Tensor layer_norm(const Tensor& x, const LayerNormFuncOptions& options) {
  const std::vector<int64_t>& axes = options.normalized_shape();
  const auto count = static_cast<int>(axes.size());
  int64_t width = 1;
  for (const int64_t size : axes) width *= size;
  const Shape last = count <= x.rank()
                         ? Shape(std::span(x.shape().end() - count, static_cast<size_t>(count)))
                         : Shape();
  if (count == 0 || last != Shape(axes)) {
    fail("layer_norm", {.argument = "normalized_shape",
                        .expected = "the last axes of " + describe(x),
                        .found = to_string(Shape(axes))});
  }
  const auto line = [](const Tensor& t) { return t.defined() ? reshape(t, {-1}) : t; };
  if (count == 1) return binade::layer_norm(x, options.weight(), options.bias(), options.eps());
  Shape flat = x.shape();
  for (int i = 1; i < count; ++i) flat.erase(flat.rank() - 1);
  flat[flat.rank() - 1] = width;
  return reshape(binade::layer_norm(reshape(x, flat), line(options.weight()), line(options.bias()),
                                    options.eps()),
                 x.shape());
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& options) {
  return binade::batch_norm(
      x, options.weight(), options.bias(), running_mean, running_var,
      {.training = options.training(), .momentum = options.momentum(), .eps = options.eps()});
}

Tensor group_norm(const Tensor& x, const GroupNormFuncOptions& options) {
  return binade::group_norm(x, options.num_groups(), options.weight(), options.bias(),
                            options.eps());
}

Tensor normalize(const Tensor& x, const NormalizeFuncOptions& options) {
  return binade::normalize(x, options.p(), options.dim(), options.eps());
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                         const CosineSimilarityFuncOptions& options) {
  return binade::cosine_similarity(a, b, options.dim(), options.eps());
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps) {
  return norm(a - b + eps, p, -1);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyFuncOptions& options) {
  const binade::CrossEntropyOptions plain{.reduce = options.reduction(),
                                          .smoothing = options.label_smoothing(),
                                          .ignore_index = options.ignore_index(),
                                          .weight = options.weight(),
                                          .class_axis = classes_at(logits)};
  return binade::cross_entropy(logits, target, plain);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const NLLLossFuncOptions& options) {
  const Tensor last = classes_last(log_probabilities);
  const int64_t classes = last.size(-1);
  const Tensor table = rows(last, classes), wanted = reshape(target, {-1});
  if (!options.weight().defined()) {
    const Tensor losses =
        binade::nll_loss(table, wanted, options.reduction(), options.ignore_index());
    return in_shape(losses, options.reduction(), target.shape());
  }
  const Tensor counts = cast(wanted != options.ignore_index(), table.dtype());
  const Tensor known = where(wanted == options.ignore_index(), zeros_like(wanted), wanted);
  const Tensor factors = binade::index(options.weight(), {known}) * counts;
  const Tensor losses =
      binade::nll_loss(table, wanted, Reduce::none, options.ignore_index()) * factors;
  if (options.reduction() == Reduce::none) return reshape(losses, target.shape());
  const Tensor total = sum(losses);
  return options.reduction() == Reduce::sum ? total : total / sum(factors);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, const MSELossFuncOptions& options) {
  return binade::mse_loss(x, target, options.reduction());
}
Tensor l1_loss(const Tensor& x, const Tensor& target, const L1LossFuncOptions& options) {
  return binade::l1_loss(x, target, options.reduction());
}
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target,
                      const SmoothL1LossFuncOptions& options) {
  return binade::smooth_l1_loss(x, target, options.reduction(), options.beta());
}
Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberLossFuncOptions& options) {
  return binade::huber_loss(x, target, options.reduction(), options.delta());
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target,
                            const BinaryCrossEntropyFuncOptions& options) {
  if (!options.weight().defined())
    return binade::binary_cross_entropy(probabilities, target, options.reduction());
  return reduced_loss(
      binade::binary_cross_entropy(probabilities, target, Reduce::none) * options.weight(),
      options.reduction());
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsFuncOptions& options) {
  if (!options.weight().defined())
    return bce_with_logits(logits, target, options.reduction(), options.pos_weight());
  return reduced_loss(
      bce_with_logits(logits, target, Reduce::none, options.pos_weight()) * options.weight(),
      options.reduction());
}

Tensor kl_div(const Tensor& x, const Tensor& target, const KLDivFuncOptions& options) {
  const BatchReduction how = options.reduction();
  const Tensor loss = binade::kl_div(x, target, how.reduce, options.log_target());
  return how.by_batch && x.rank() > 0 ? loss / static_cast<double>(x.size(0)) : loss;
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& y, const LossOptions& options) {
  return binade::soft_margin_loss(x, y, options.reduction());
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossFuncOptions& options) {
  return binade::triplet_margin_loss(anchor, positive, negative, options.margin(),
                                     options.reduction());
}

}  // namespace binade::torch::nn::functional
