#include "binade/ops/norm.h"

#include "binade/autograd/recompute.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/common.h"
#include "binade/ops/norm_common.h"
#include "binade/ops/unary.h"

namespace binade {
namespace {

using namespace ops;
using backend::NormKind;

Tensor norm(Op op, NormKind kind, const Tensor& x, const Tensor& weight, const Tensor& bias,
            double eps) {
  check_norm(name(op), x, {}, weight, bias, eps);
  const Call call(op, {x, weight, bias});
  const auto [rows, width] = rows_of(x.shape());
  const Tensor flat = viewed(dense(call[0]), {rows, width});
  const Tensor y = Tensor::empty_like(flat);
  const Tensor mean =
      kind == NormKind::layer ? Tensor::empty({rows}, statistics_type(flat), x.device()) : Tensor();
  const Tensor rstd = Tensor::empty({rows}, statistics_type(flat), x.device());
  const Tensor scale = dense(call[1]), shift = dense(call[2]);
  backend::of(x).norm.forward(kind, flat, {}, scale, shift, eps, {}, y, mean, rstd);
  const NormBackward backward{kind, flat, scale, mean, rstd};
  return call.result(viewed(y, x.shape()), [backward](const Tensor& dy, GradSlots dx) {
    // The kernel always writes x's gradient: to scratch where nobody wants it.
    const auto target = dx[0].needs_grad()
                            ? dx[0].target()
                            : GradSlot::Target{Tensor::empty_like(backward.x.get()), false};
    backward(dy, {}, target.buffer, target.accumulate, dx[1], dx[2]);
  });
}

std::pair<Tensor, Tensor> residual_norm(Op op, NormKind kind, const Tensor& x,
                                        const Tensor& residual, const Tensor& weight,
                                        const Tensor& bias, double eps) {
  check_norm(name(op), x, residual, weight, bias, eps);
  const Call call(op, {x, weight, bias, residual});
  const auto [rows, width] = rows_of(x.shape());
  const Shape flat{rows, width};
  const Tensor in = viewed(dense(call[0]), flat);
  const Tensor other = residual.defined() ? viewed(dense(call[3]), flat) : Tensor();
  const Tensor sum = residual.defined() ? Tensor::empty(flat, residual.dtype(), x.device()) : in;
  const Tensor y = Tensor::empty(flat, normed_type(op, sum.dtype()), x.device());
  const Tensor mean =
      kind == NormKind::layer ? Tensor::empty({rows}, statistics_type(sum), x.device()) : Tensor();
  const Tensor rstd = Tensor::empty({rows}, statistics_type(sum), x.device());
  const Tensor scale = dense(call[1]), shift = dense(call[2]);
  backend::of(x).norm.forward(kind, in, other, scale, shift, eps,
                              residual.defined() ? sum : Tensor(), y, mean, rstd);

  const Tensor outputs[2] = {viewed(sum, x.shape()), viewed(y, x.shape())};
  const NormBackward backward{kind, sum, scale, mean, rstd};
  call.results(outputs, [backward](std::span<const Tensor> dy, GradSlots dx) {
    const Tensor gradient = backward.through_sum(dy[0], dy[1], dx[1], dx[2]);
    dx[0].add(gradient);
    dx[3].add(gradient);
  });
  return {outputs[0], outputs[1]};
}

std::pair<Tensor, Tensor> residual_composite(Op op, const Tensor& x, const Tensor& residual,
                                             Tensor (*norm)(const Tensor&, const Tensor&,
                                                            const Tensor&, double),
                                             const Tensor& weight, const Tensor& bias, double eps) {
  const DType stream = residual.defined() ? residual.dtype() : x.dtype();
  const DType result = normed_type(op, stream);
  const amp::Autocast plain(amp::disabled_autocast());
  const Tensor sum =
      residual.defined()
          ? cast(cast(x, promote(x.dtype(), residual.dtype())) + residual, residual.dtype())
          : x;
  const DType wide = stream == DType::f64 ? DType::f64 : DType::f32;
  const Tensor y = norm(cast(sum, wide), weight, bias, eps);
  return {sum, cast(y, result)};
}

// Channels of x [n, c, ...] and what lies inside one channel.
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

// Parameter gradients in buffers of their own, for kernels that share one accumulate flag.
struct ParameterGradients {
  Tensor weight, bias;

  ParameterGradients(GradSlots dx, const Tensor& like, int64_t channels) {
    const DType type = statistics_type(like);
    if (dx[1].needs_grad()) weight = Tensor::empty({channels}, type, like.device());
    if (dx[2].needs_grad()) bias = Tensor::empty({channels}, type, like.device());
  }
  void deliver(GradSlots dx) const {
    if (weight.defined()) dx[1].add(weight);
    if (bias.defined()) dx[2].add(bias);
  }
};

// running = (1 - momentum) * running + momentum * batch, the variance without bias.
void update_running(const Tensor& running_mean, const Tensor& running_variance, const Tensor& mean,
                    const Tensor& rstd, double eps, double momentum, int64_t count) {
  const auto& kernels = backend::of(mean).elementwise;
  if (running_mean.defined()) {
    kernels.axpby(momentum, mean, 1 - momentum, running_mean);
    running_mean.bump_version();
  }
  if (running_variance.defined()) {
    const Tensor variance = Tensor::empty_like(rstd);
    kernels.unary(backend::Unary::pow, {-2, 0}, rstd, variance);
    kernels.unary(backend::Unary::scale, {1, -eps}, variance, variance);
    const double unbiased =
        count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
    kernels.axpby(momentum * unbiased, variance, 1 - momentum, running_variance);
    running_variance.bump_version();
  }
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return norm(Op::layer_norm, NormKind::layer, x, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return norm(Op::rms_norm, NormKind::rms, x, weight, {}, eps);
}

std::pair<Tensor, Tensor> residual_layer_norm(const Tensor& x, const Tensor& residual,
                                              const Tensor& weight, const Tensor& bias,
                                              double eps) {
  return residual_norm(Op::residual_layer_norm, NormKind::layer, x, residual, weight, bias, eps);
}

std::pair<Tensor, Tensor> residual_rms_norm(const Tensor& x, const Tensor& residual,
                                            const Tensor& weight, double eps) {
  return residual_norm(Op::residual_rms_norm, NormKind::rms, x, residual, weight, {}, eps);
}

std::pair<Tensor, Tensor> residual_layer_norm_composite(const Tensor& x, const Tensor& residual,
                                                        const Tensor& weight, const Tensor& bias,
                                                        double eps) {
  return residual_composite(Op::residual_layer_norm, x, residual, layer_norm, weight, bias, eps);
}

std::pair<Tensor, Tensor> residual_rms_norm_composite(const Tensor& x, const Tensor& residual,
                                                      const Tensor& weight, double eps) {
  const auto norm = [](const Tensor& x, const Tensor& weight, const Tensor&, double eps) {
    return rms_norm(x, weight, eps);
  };
  return residual_composite(Op::residual_rms_norm, x, residual, norm, weight, {}, eps);
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_variance, bool training,
                  double momentum, double eps) {
  const auto [n, c, inner] = channels_of("batch_norm", x, weight, bias, eps);
  for (const auto& [argument, statistic] : {std::pair("running_mean", &running_mean),
                                            std::pair("running_variance", &running_variance)}) {
    if (!statistic->defined()) continue;
    require_compute("batch_norm", argument, *statistic);
    require_shape("batch_norm", argument, *statistic, {c});
    require_device("batch_norm", argument, *statistic, x);
  }
  require_between("batch_norm", "momentum", momentum, 0, 1);
  if (!training && (!running_mean.defined() || !running_variance.defined())) {
    fail("batch_norm", {.argument = "running statistics",
                        .expected = "both, outside of training",
                        .found = "none"});
  }
  if (training && n * inner < 2) {
    fail("batch_norm", {.argument = "x",
                        .expected = "more than one value per channel in training",
                        .found = describe(x)});
  }
  const Call call(Op::batch_norm, {x, weight, bias});
  const Shape flat{n, c, inner};
  const Tensor in = viewed(dense(call[0]), flat);
  const Tensor y = Tensor::empty_like(in);
  const auto& kernels = backend::of(x);
  const Tensor mean = Tensor::empty({c}, statistics_type(in), x.device()),
               rstd = Tensor::empty_like(mean);
  if (!training) {
    kernels.elementwise.copy(running_mean, mean);
    kernels.elementwise.copy(running_variance, rstd);
    kernels.elementwise.unary(backend::Unary::scale, {1, eps}, rstd, rstd);
    kernels.elementwise.unary(backend::Unary::rsqrt, {}, rstd, rstd);
  }
  const Tensor scale = dense(call[1]), shift = dense(call[2]);
  kernels.norm.batch_forward(in, scale, shift, eps, training, y, mean, rstd);
  if (training && !autograd::recomputing()) {
    update_running(running_mean, running_variance, mean, rstd, eps, momentum, n * inner);
  }
  return call.result(viewed(y, x.shape()), [=, x = Saved(in), weight = Saved(scale), channels = c](
                                               const Tensor& dy, GradSlots dx) {
    const ParameterGradients parameters(dx, x, channels);
    const Tensor gradient = Tensor::empty_like(x.get());
    backend::of(dy).norm.batch_backward(viewed(dense(dy), flat), x, weight, mean, rstd, training,
                                        gradient, parameters.weight, parameters.bias, false);
    dx[0].add(viewed(gradient, dy.shape()));
    parameters.deliver(dx);
  });
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const auto [n, c, inner] = channels_of("group_norm", x, weight, bias, eps);
  if (groups < 1 || c % groups != 0) {
    fail("group_norm", {.argument = "groups",
                        .expected = "a divisor of " + std::to_string(c),
                        .found = std::to_string(groups)});
  }
  const Call call(Op::group_norm, {x, weight, bias});
  const Shape flat{n, groups, c / groups, inner};
  const Tensor in = viewed(dense(call[0]), flat);
  const Tensor y = Tensor::empty_like(in);
  const Tensor mean = Tensor::empty({n, groups}, statistics_type(in), x.device()),
               rstd = Tensor::empty_like(mean);
  const Tensor scale = dense(call[1]), shift = dense(call[2]);
  backend::of(x).norm.group_forward(in, scale, shift, eps, y, mean, rstd);
  return call.result(viewed(y, x.shape()), [=, x = Saved(in), weight = Saved(scale), channels = c](
                                               const Tensor& dy, GradSlots dx) {
    const ParameterGradients parameters(dx, x, channels);
    const Tensor gradient = Tensor::empty_like(x.get());
    backend::of(dy).norm.group_backward(viewed(dense(dy), flat), x, weight, mean, rstd, gradient,
                                        parameters.weight, parameters.bias, false);
    dx[0].add(viewed(gradient, dy.shape()));
    parameters.deliver(dx);
  });
}

}  // namespace binade
