#include "binade/torch/functional.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "binade/ops/conv/conv.h"
#include "binade/ops/conv/pool.h"
#include "binade/ops/conv/sample.h"
#include "binade/ops/conv/unfold.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/loss/ctc_loss.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/loss/margin_loss.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/shape/shape.h"
#include "binade/torch/names.h"

namespace binade::torch::nn::functional {
namespace {

// How much padding on each side keeps the sizes. As in LibTorch that needs steps of 1.
std::vector<int64_t> same_padding(const Tensor& weight, const Sizes& stride,
                                  const Sizes& dilation) {
  std::vector<int64_t> sides;
  for (int axis = 2; axis < weight.rank(); ++axis) {
    const auto at = [&](const Sizes& sizes) {
      return sizes.empty() ? 1 : sizes[sizes.size() == 1 ? 0 : static_cast<size_t>(axis - 2)];
    };
    const int64_t total = at(dilation) * (weight.shape()[axis] - 1);
    if (at(stride) != 1 || total % 2 != 0) {
      fail("conv", {.argument = "padding",
                    .expected = "kSame with a stride of 1 and odd kernels",
                    .found = "a stride of " + std::to_string(at(stride)) + ", a kernel of " +
                             std::to_string(weight.shape()[axis]),
                    .hint = "pad the input"});
    }
    sides.push_back(total / 2);
  }
  return sides;
}

// y, which x becomes if the options say so.
Tensor kept_or_written(const Tensor& x, const Tensor& y, bool inplace) {
  if (!inplace) return y;
  overwrite_(x, y);
  return x;
}

template <class Options>
binade::ConvOptions plain(const Options& options, const Tensor& weight) {
  return {.stride = options.stride(),
          .padding = padding_of(options.padding(), weight, options.stride(), options.dilation()),
          .dilation = options.dilation(),
          .groups = options.groups()};
}

template <class Options>
ConvTransposeOptions transposed(const Options& options) {
  return {.stride = options.stride(),
          .padding = options.padding().sizes,
          .output_padding = options.output_padding(),
          .dilation = options.dilation(),
          .groups = options.groups()};
}

template <int axes>
binade::PoolOptions plain(const nn::PoolOptions<axes>& options) {
  for (const int64_t one : options.dilation()) {
    if (one != 1)
      fail("max_pool", {.argument = "dilation", .expected = "1", .found = std::to_string(one)});
  }
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

// A loss of tensors of different shapes that broadcast.
template <class F>
Tensor broadcast_loss(const Tensor& x, const Tensor& target, F&& loss) {
  if (x.shape() == target.shape()) return loss(x, target);
  const Shape shape = broadcast("loss", x.shape(), target.shape());
  return loss(expand(x, shape), expand(target, shape));
}

Tensor in_shape(const Tensor& losses, Reduce reduce, const Shape& shape) {
  return reduce == Reduce::none ? reshape(losses, shape) : losses;
}

// The places of an axis that an element of the result is made of, with their weights.
struct Taps {
  std::vector<std::vector<int64_t>> places;
  std::vector<std::vector<double>> weights;
};

// Keys' cubic with a = -0.75, as PyTorch's.
double cubic(double t) {
  const double a = -0.75, x = std::abs(t);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

Taps taps_of(Resize mode, int64_t in, int64_t out, double step, bool aligned) {
  const int64_t count = mode == Resize::bicubic ? 4 : mode == Resize::bilinear ? 2 : 1;
  Taps taps{std::vector<std::vector<int64_t>>(static_cast<size_t>(count)),
            std::vector<std::vector<double>>(static_cast<size_t>(count))};
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<double>(i);
    double source = aligned ? at * step : (at + 0.5) * step - 0.5;
    if (mode == Resize::nearest) source = static_cast<float>(at) * static_cast<float>(step);
    if (mode == Resize::bilinear) source = std::max(source, 0.0);
    const double low = std::floor(source);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t place = static_cast<int64_t>(low) + k - (count == 4 ? 1 : 0);
      const double away = std::abs(source - static_cast<double>(place));
      taps.places[static_cast<size_t>(k)].push_back(std::clamp<int64_t>(place, 0, in - 1));
      taps.weights[static_cast<size_t>(k)].push_back(count == 1   ? 1
                                                     : count == 2 ? 1 - away
                                                                  : cubic(away));
    }
  }
  return taps;
}

// One axis of images in another size.
Tensor resized(const Tensor& x, int64_t axis, const Taps& taps) {
  Shape beside = Shape::filled(x.rank(), 1);
  beside[static_cast<int>(axis)] = static_cast<int64_t>(taps.places[0].size());
  Tensor y;
  for (size_t k = 0; k < taps.places.size(); ++k) {
    const Tensor index = to(tensor(std::span<const int64_t>(taps.places[k]),
                                   {static_cast<int64_t>(taps.places[k].size())}),
                            x.device());
    Tensor part = index_select(x, axis, index);
    if (taps.places.size() > 1)
      part = part * tensor(std::span<const double>(taps.weights[k]), beside, x.dtype(), x.device());
    y = y.defined() ? y + part : part;
  }
  return y;
}

}  // namespace

std::vector<int64_t> padding_of(const Padding& padding, const Tensor& weight, const Sizes& stride,
                                const Sizes& dilation) {
  return padding.same ? same_padding(weight, stride, dilation)
                      : std::vector<int64_t>(padding.sizes);
}

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

Tensor softplus(const Tensor& x, const SoftplusFuncOptions& options) {
  if (options.beta() == 1 && options.threshold() == 20) return binade::softplus(x);
  return torch::softplus(x, options.beta(), options.threshold());
}
Tensor softmin(const Tensor& x, const SoftminFuncOptions& options) {
  return binade::softmax(-x, options.dim());
}
Tensor celu(const Tensor& x, const CELUFuncOptions& options) {
  return torch::celu(x, options.alpha());
}
Tensor glu(const Tensor& x, const GLUFuncOptions& options) {
  const int64_t size = x.size(options.dim());
  if (size % 2 != 0)
    fail("glu", {.argument = "x", .expected = "an axis of an even size", .found = describe(x)});
  return slice(x, options.dim(), 0, size / 2) *
         binade::sigmoid(slice(x, options.dim(), size / 2, size));
}
Tensor hardshrink(const Tensor& x, const HardshrinkFuncOptions& options) {
  return where(abs(x) > options.lambda(), x, zeros_like(x));
}
Tensor softshrink(const Tensor& x, const SoftshrinkFuncOptions& options) {
  return where(abs(x) > options.lambda(), x - sign(x) * options.lambda(), zeros_like(x));
}
Tensor tanhshrink(const Tensor& x) { return x - tanh(x); }
Tensor threshold(const Tensor& x, const ThresholdFuncOptions& options) {
  return torch::threshold(x, options.threshold(), options.value());
}
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& options) {
  const Tensor noise = -log(-log(clamp_min(rand_like(logits), 1e-30)));
  const Tensor soft = binade::softmax((logits + noise) / options.tau(), options.dim());
  if (!options.hard()) return soft;
  const Tensor chosen = binade::argmax(soft.detach(), options.dim(), true);
  const Tensor ones = binade::scatter(zeros_like(soft.detach()), options.dim(), chosen, 1.0);
  return ones - soft.detach() + soft;
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
    return binade::conv1d(batch, weight, options.bias(), plain(options, weight));
  });
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv2dFuncOptions& options) {
  return in_batch(x, 3, [&](const Tensor& batch) {
    return binade::conv2d(batch, weight, options.bias(), plain(options, weight));
  });
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Conv3dFuncOptions& options) {
  return in_batch(x, 4, [&](const Tensor& batch) {
    return binade::conv3d(batch, weight, options.bias(), plain(options, weight));
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
  if (x.rank() != 4)
    fail("interpolate", {.argument = "x", .expected = "[n, c, h, w]", .found = describe(x)});
  if (options.size().has_value() == options.scale_factor().has_value()) {
    fail("interpolate", {.argument = "size, scale_factor",
                         .expected = "one of them",
                         .found = options.size() ? "both" : "none"});
  }
  const bool aligned = options.align_corners().value_or(false);
  if (aligned && options.mode() == Resize::nearest) {
    fail("interpolate",
         {.argument = "align_corners", .expected = "false for kNearest", .found = "true"});
  }
  std::array<int64_t, 2> sizes{};
  std::array<double, 2> steps{};  // of the source for one of the result
  bool exact = !aligned && options.mode() != Resize::bicubic;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t in = x.size(static_cast<int64_t>(i) + 2);
    const auto size = static_cast<double>(in);
    if (options.size()) {
      sizes[i] = options.size()->at(options.size()->size() == 1 ? 0 : i);
      steps[i] = size / static_cast<double>(sizes[i]);
    } else {
      const std::vector<double>& factors = *options.scale_factor();
      const double factor = factors.at(factors.size() == 1 ? 0 : i);
      sizes[i] = static_cast<int64_t>(std::floor(size * factor));
      steps[i] = 1 / factor;
      exact = exact && static_cast<double>(sizes[i]) == size * factor;
    }
    if (sizes[i] < 1) {
      fail("interpolate", {.argument = "size, scale_factor",
                           .expected = "a size of at least 1",
                           .found = std::to_string(sizes[i])});
    }
    if (aligned) steps[i] = sizes[i] > 1 ? (size - 1) / static_cast<double>(sizes[i] - 1) : 0;
  }
  if (exact) {
    return options.mode() == Resize::nearest ? upsample_nearest2d(x, sizes[0], sizes[1])
                                             : upsample_bilinear2d(x, sizes[0], sizes[1]);
  }
  Tensor y = x;
  for (size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    y = resized(y, axis, taps_of(options.mode(), x.size(axis), sizes[i], steps[i], aligned));
  }
  return y;
}

Tensor pad(const Tensor& x, const PadFuncOptions& options) {
  return binade::pad(x, options.pad(), {.mode = options.mode(), .value = options.value()});
}

Tensor pixel_shuffle(const Tensor& x, const PixelShuffleFuncOptions& options) {
  return binade::pixel_shuffle(x, options.upscale_factor());
}

Tensor fold(const Tensor& x, const FoldFuncOptions& options) {
  const Sizes& size = options.output_size();
  return binade::fold(x, size.at(0), size.back(),
                      {.kernel = options.kernel_size(),
                       .stride = options.stride(),
                       .padding = options.padding(),
                       .dilation = options.dilation()});
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

Tensor instance_norm(const Tensor& x, const InstanceNormFuncOptions& options) {
  return binade::instance_norm(x, options.weight(), options.bias(), options.eps());
}

Tensor normalize(const Tensor& x, const NormalizeFuncOptions& options) {
  return binade::normalize(x, options.p(), options.dim(), options.eps());
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                         const CosineSimilarityFuncOptions& options) {
  return binade::cosine_similarity(a, b, options.dim(), options.eps());
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b,
                         const PairwiseDistanceFuncOptions& options) {
  return norm(a - b + options.eps(), options.p(), -1, options.keepdim());
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
  return broadcast_loss(x, target, [&](const Tensor& a, const Tensor& b) {
    return binade::mse_loss(a, b, options.reduction());
  });
}
Tensor l1_loss(const Tensor& x, const Tensor& target, const L1LossFuncOptions& options) {
  return broadcast_loss(x, target, [&](const Tensor& a, const Tensor& b) {
    return binade::l1_loss(a, b, options.reduction());
  });
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

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                           const MarginRankingLossFuncOptions& options) {
  return binade::margin_ranking_loss(a, b, y, options.margin(), options.reduction());
}
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y,
                            const HingeEmbeddingLossFuncOptions& options) {
  return binade::hinge_embedding_loss(x, y, options.margin(), options.reduction());
}
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                             const CosineEmbeddingLossFuncOptions& options) {
  const Tensor likeness = binade::cosine_similarity(a, b, -1);
  const Tensor apart = clamp_min(likeness - options.margin(), 0);
  return reduced_loss(where(y == 1, 1 - likeness, apart), options.reduction());
}
Tensor multi_margin_loss(const Tensor& x, const Tensor& target,
                         const MultiMarginLossFuncOptions& options) {
  if (options.p() != 1 || options.weight().defined()) {
    fail("multi_margin_loss", {.argument = "p, weight",
                               .expected = "1 and none",
                               .found = options.p() != 1 ? "another p" : "weights"});
  }
  return binade::multi_margin_loss(x, target, options.margin(), options.reduction());
}
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target,
                        const PoissonNLLLossFuncOptions& options) {
  Tensor loss = options.log_input() ? exp(x) - target * x : x - target * log(x + options.eps());
  if (options.full()) {
    const double pi = 3.14159265358979323846;
    const Tensor safe = clamp_min(target, 1);
    const Tensor stirling = target * log(safe) - target + 0.5 * log(2 * pi * safe);
    loss = loss + where(target > 1, stirling, zeros_like(stirling));
  }
  return reduced_loss(loss, options.reduction());
}
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossFuncOptions& options) {
  const auto counts = [](const Tensor& lengths) {
    std::vector<int64_t> result;
    for (const double one : to_vector(lengths)) result.push_back(static_cast<int64_t>(one));
    return result;
  };
  return binade::ctc_loss(log_probs, targets,
                          {.input = counts(input_lengths), .target = counts(target_lengths)},
                          {.reduce = options.reduction(),
                           .blank = options.blank(),
                           .zero_infinity = options.zero_infinity()});
}

}  // namespace binade::torch::nn::functional
