#include "binade/ops/norm/norm.h"

#include "binade/autograd/recompute.h"
#include "binade/ops/common.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/norm/channels_last.h"
#include "binade/ops/norm/common.h"

namespace binade {
namespace {

using namespace ops;
using backend::NormKind;

struct Statistics {
  Tensor mean;  // undefined for rms norm
  Tensor rstd;
};

// Uninitialized, one element per row of x.
Statistics new_statistics(NormKind kind, const Tensor& x) {
  const Shape shape{x.size(0)};
  const DType type = accumulation_type(x);
  return {.mean = kind == NormKind::layer ? Tensor::empty(shape, type, x.device()) : Tensor(),
          .rstd = Tensor::empty(shape, type, x.device())};
}

Tensor norm(Op op, const NormArguments& args) {
  check_norm(name(op), args);
  const Call call(op, {args.x, args.weight, args.bias});
  const auto [rows, width] = rows_of(args.x.shape());
  const Tensor in = viewed(dense(call[0]), {rows, width});
  const Tensor weight = dense(call[1]), bias = dense(call[2]);
  const Tensor y = Tensor::empty_like(in);
  const auto [mean, rstd] = new_statistics(args.kind, in);
  backend::of(in).norm.forward({.kind = args.kind,
                                .x = in,
                                .weight = weight,
                                .bias = bias,
                                .eps = args.eps,
                                .y = y,
                                .mean = mean,
                                .rstd = rstd});
  const NormGradient gradient{args.kind, in, weight, mean, rstd};
  return call.result(viewed(y, args.x.shape()), [gradient](const Tensor& dy, GradSlots dx) {
    gradient.run(dy, {}, target_of(dx[0], gradient.x->shape()), dx[1], dx[2]);
  });
}

std::pair<Tensor, Tensor> residual_norm(Op op, const NormArguments& args) {
  check_norm(name(op), args);
  const Call call(op, {args.x, args.weight, args.bias, args.residual});
  const auto [rows, width] = rows_of(args.x.shape());
  const Shape flat{rows, width};
  const bool adds = args.residual.defined();
  const Tensor in = viewed(dense(call[0]), flat);
  const Tensor other = adds ? viewed(dense(call[3]), flat) : Tensor();
  const Tensor weight = dense(call[1]), bias = dense(call[2]);
  const Tensor sum = adds ? Tensor::empty(flat, args.residual.dtype(), in.device()) : in;
  const Tensor y = Tensor::empty(flat, normed_type(op, sum.dtype()), in.device());
  const auto [mean, rstd] = new_statistics(args.kind, sum);
  backend::of(in).norm.forward({.kind = args.kind,
                                .x = in,
                                .residual = other,
                                .weight = weight,
                                .bias = bias,
                                .eps = args.eps,
                                .sum = adds ? sum : Tensor(),
                                .y = y,
                                .mean = mean,
                                .rstd = rstd});

  const Tensor outputs[2] = {viewed(sum, args.x.shape()), viewed(y, args.x.shape())};
  const NormGradient gradient{args.kind, sum, weight, mean, rstd};
  call.results(outputs, [gradient](std::span<const Tensor> dy, GradSlots dx) {
    const Tensor dsum = gradient.through_sum(dy[0], dy[1], dx[1], dx[2], dx[0]);
    dx[0].add(dsum);
    dx[3].add(dsum);
  });
  return {outputs[0], outputs[1]};
}

std::pair<Tensor, Tensor> residual_composite(Op op, const NormArguments& args) {
  const Tensor &x = args.x, &residual = args.residual;
  const DType stream = residual.defined() ? residual.dtype() : x.dtype();
  const DType result = normed_type(op, stream);
  const amp::Autocast plain(amp::disabled_autocast());
  const Tensor sum =
      residual.defined()
          ? cast(cast(x, promote(x.dtype(), residual.dtype())) + residual, residual.dtype())
          : x;
  const Tensor wide = cast(sum, binade::accumulation_type(stream));
  const Tensor y = args.kind == NormKind::layer ? layer_norm(wide, args.weight, args.bias, args.eps)
                                                : rms_norm(wide, args.weight, args.eps);
  return {sum, cast(y, result)};
}

// Sizes of x [n, c, ...], the axes after the second joined.
struct Channels {
  int64_t n, c, inner;
};

Channels channels_of(std::string_view op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     double eps) {
  require_compute(op, "x", x);
  if (x.rank() < 2)
    fail(op, {.argument = "x", .expected = "[n, channels, ...]", .found = describe(x)});
  const Channels channels{x.size(0), x.size(1),
                          x.size(0) * x.size(1) == 0 ? 0 : x.numel() / (x.size(0) * x.size(1))};
  check_parameters(op, weight, bias, channels.c);
  check_eps(op, eps);
  return channels;
}

struct RunningStatistics {
  const Tensor& mean;      // optional
  const Tensor& variance;  // optional

  // running = (1 - momentum) * running + momentum * batch, with the unbiased variance of `count`
  // elements.
  void update(const Statistics& batch, int64_t count, const BatchNormOptions& options) const {
    const auto& kernels = backend::of(batch.mean).elementwise;
    const double momentum = options.momentum;
    if (mean.defined()) {
      kernels.axpby(momentum, batch.mean, 1 - momentum, mean);
      mean.bump_version();
    }
    if (variance.defined()) {
      const Tensor biased = Tensor::empty_like(batch.rstd);
      kernels.unary(backend::Unary::pow, {-2, 0}, batch.rstd, biased);
      kernels.unary(backend::Unary::scale, {1, -options.eps}, biased, biased);
      const double unbiased =
          count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
      kernels.axpby(momentum * unbiased, biased, 1 - momentum, variance);
      variance.bump_version();
    }
  }
};

void check_running(const RunningStatistics& running, const Tensor& x, const Channels& channels,
                   const BatchNormOptions& options) {
  for (const auto& [argument, statistic] : {std::pair("running_mean", &running.mean),
                                            std::pair("running_variance", &running.variance)}) {
    if (!statistic->defined()) continue;
    require_compute("batch_norm", argument, *statistic);
    require_shape("batch_norm", argument, *statistic, {channels.c});
    require_device("batch_norm", argument, *statistic, x);
  }
  require_between("batch_norm", "momentum", options.momentum, 0, 1);
  if (!options.training && (!running.mean.defined() || !running.variance.defined())) {
    fail("batch_norm", {.argument = "running statistics",
                        .expected = "both, outside of training",
                        .found = "none"});
  }
  if (options.training && channels.n * channels.inner < 2) {
    fail("batch_norm", {.argument = "x",
                        .expected = "more than one value per channel in training",
                        .found = describe(x)});
  }
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return norm(Op::layer_norm,
              {.kind = NormKind::layer, .x = x, .weight = weight, .bias = bias, .eps = eps});
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return norm(Op::rms_norm, {.kind = NormKind::rms, .x = x, .weight = weight, .eps = eps});
}

std::pair<Tensor, Tensor> residual_layer_norm(const Tensor& x, const Tensor& residual,
                                              const Tensor& weight, const Tensor& bias,
                                              double eps) {
  return residual_norm(Op::residual_layer_norm, {.kind = NormKind::layer,
                                                 .x = x,
                                                 .residual = residual,
                                                 .weight = weight,
                                                 .bias = bias,
                                                 .eps = eps});
}

std::pair<Tensor, Tensor> residual_rms_norm(const Tensor& x, const Tensor& residual,
                                            const Tensor& weight, double eps) {
  return residual_norm(
      Op::residual_rms_norm,
      {.kind = NormKind::rms, .x = x, .residual = residual, .weight = weight, .eps = eps});
}

std::pair<Tensor, Tensor> residual_layer_norm_composite(const Tensor& x, const Tensor& residual,
                                                        const Tensor& weight, const Tensor& bias,
                                                        double eps) {
  return residual_composite(Op::residual_layer_norm, {.kind = NormKind::layer,
                                                      .x = x,
                                                      .residual = residual,
                                                      .weight = weight,
                                                      .bias = bias,
                                                      .eps = eps});
}

std::pair<Tensor, Tensor> residual_rms_norm_composite(const Tensor& x, const Tensor& residual,
                                                      const Tensor& weight, double eps) {
  return residual_composite(
      Op::residual_rms_norm,
      {.kind = NormKind::rms, .x = x, .residual = residual, .weight = weight, .eps = eps});
}

Tensor batch_norm_relu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                       const Tensor& bias, const Tensor& running_mean,
                       const Tensor& running_variance, const BatchNormOptions& options) {
  if (residual.defined()) {
    require_compute("batch_norm_relu", "residual", residual);
    require_defined("batch_norm_relu", "x", x);
    require_shape("batch_norm_relu", "residual", residual, x.shape());
  }
  const Channels channels = channels_of("batch_norm", x, weight, bias, options.eps);
  check_running({running_mean, running_variance}, x, channels, options);
  const bool one_type = !residual.defined() || residual.dtype() == x.dtype();
  if (one_type && native_format(x) == MemoryFormat::channels_last) {
    return channels_last_batch_norm({.x = x,
                                     .residual = residual,
                                     .weight = weight,
                                     .bias = bias,
                                     .running_mean = running_mean,
                                     .running_variance = running_variance,
                                     .options = options,
                                     .relu = true});
  }
  const Tensor y = batch_norm(x, weight, bias, running_mean, running_variance, options);
  return relu(residual.defined() ? y + residual : y);
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_variance,
                  const BatchNormOptions& options) {
  const Channels channels = channels_of("batch_norm", x, weight, bias, options.eps);
  const RunningStatistics running{running_mean, running_variance};
  check_running(running, x, channels, options);
  if (native_format(x) == MemoryFormat::channels_last) {
    return channels_last_batch_norm({.x = x,
                                     .weight = weight,
                                     .bias = bias,
                                     .running_mean = running_mean,
                                     .running_variance = running_variance,
                                     .options = options});
  }
  const Call call(Op::batch_norm, {x, weight, bias});
  const auto [n, c, inner] = channels;
  const Shape flat{n, c, inner};
  const Tensor in = viewed(dense(call[0]), flat);
  const Tensor scale = dense(call[1]), shift = dense(call[2]);
  const Tensor y = Tensor::empty_like(in);
  const auto& kernels = backend::of(x);
  const Tensor mean = Tensor::empty({c}, accumulation_type(in), x.device()),
               rstd = Tensor::empty_like(mean);
  if (!options.training) {
    kernels.elementwise.copy(running_mean, mean);
    kernels.elementwise.copy(running_variance, rstd);
    kernels.elementwise.unary(backend::Unary::scale, {1, options.eps}, rstd, rstd);
    kernels.elementwise.unary(backend::Unary::rsqrt, {}, rstd, rstd);
  }
  kernels.norm.batch_forward({.x = in,
                              .weight = scale,
                              .bias = shift,
                              .eps = options.eps,
                              .training = options.training,
                              .y = y,
                              .mean = mean,
                              .rstd = rstd});
  if (options.training && !autograd::recomputing())
    running.update({mean, rstd}, n * inner, options);
  return call.result(viewed(y, x.shape()), [=, training = options.training, x = Saved(in),
                                            weight = Saved(scale)](const Tensor& dy, GradSlots dx) {
    const Tensor gradient = Tensor::empty_like(x.get());
    backend::of(dy).norm.batch_backward({.dy = viewed(dense(dy), flat),
                                         .x = x,
                                         .weight = weight,
                                         .mean = mean,
                                         .rstd = rstd,
                                         .training = training,
                                         .dx = gradient,
                                         .dweight = target_of(dx[1]),
                                         .dbias = target_of(dx[2])});
    dx[0].add(viewed(gradient, dy.shape()));
  });
}

// Instance norm is a group norm with one channel per group.
static Tensor normalized_groups(Op op, const Tensor& x, int64_t groups, const Tensor& weight,
                                const Tensor& bias, double eps) {
  const auto [n, c, inner] = channels_of(name(op).data(), x, weight, bias, eps);
  if (op == Op::instance_norm) groups = std::max<int64_t>(c, 1);
  if (groups < 1 || c % groups != 0) {
    fail(name(op), {.argument = "groups",
                    .expected = "a divisor of " + std::to_string(c),
                    .found = std::to_string(groups)});
  }
  const Call call(op, {x, weight, bias});
  const Shape flat{n, groups, c / groups, inner};
  const Tensor in = viewed(dense(call[0]), flat);
  const Tensor y = Tensor::empty_like(in);
  const Tensor mean = Tensor::empty({n, groups}, accumulation_type(in), x.device()),
               rstd = Tensor::empty_like(mean);
  const Tensor scale = dense(call[1]), shift = dense(call[2]);
  backend::of(x).norm.group_forward(
      {.x = in, .weight = scale, .bias = shift, .eps = eps, .y = y, .mean = mean, .rstd = rstd});
  return call.result(viewed(y, x.shape()), [flat, mean, rstd, x = Saved(in), weight = Saved(scale)](
                                               const Tensor& dy, GradSlots dx) {
    const Tensor gradient = Tensor::empty_like(x.get());
    backend::of(dy).norm.group_backward({.dy = viewed(dense(dy), flat),
                                         .x = x,
                                         .weight = weight,
                                         .mean = mean,
                                         .rstd = rstd,
                                         .dx = gradient,
                                         .dweight = target_of(dx[1]),
                                         .dbias = target_of(dx[2])});
    dx[0].add(viewed(gradient, dy.shape()));
  });
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  return normalized_groups(Op::group_norm, x, groups, weight, bias, eps);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return normalized_groups(Op::instance_norm, x, 1, weight, bias, eps);
}

}  // namespace binade
