#include "binade/ops/norm/channels_last.h"

#include "binade/autograd/recompute.h"
#include "binade/ops/common.h"

namespace binade::ops {
namespace {

constexpr MemoryFormat channels_last_format = MemoryFormat::channels_last;

// The elements of a channels-last tensor as rows of channels.
Tensor as_rows(const Tensor& x) {
  const int64_t channels = x.size(1);
  return viewed(x, {x.numel() / channels, channels});
}

Tensor new_like(const Tensor& x) {
  return empty(x.shape(), x.dtype(), x.device(), channels_last_format);
}

// The saved tensors of a batch norm. Without a residual its result can be computed again, and in
// the same pass the sums that its gradient begins with.
class BatchNormRecompute : public autograd::ResultRecompute {
 public:
  struct Tensors {
    Tensor x, weight, bias, mean, rstd;
  };

  BatchNormRecompute(const Tensors& t, const BatchNormOptions& options, bool relu)
      : x_(t.x),
        weight_(t.weight),
        bias_(t.bias),
        mean_(t.mean),
        rstd_(t.rstd),
        options_(options),
        relu_(relu) {}

  Tensor compute(const Tensor& gradient) override {
    const Tensor y = new_like(x_);
    if (gradient.defined() && relu_) {
      early_.set(gradient, sums(in_format(gradient, channels_last_format), {.result = y}));
      return y;
    }
    backend::of(y).norm.row_batch_forward({.x = as_rows(x_),
                                           .weight = weight_,
                                           .bias = bias_,
                                           .eps = options_.eps,
                                           .training = false,
                                           .relu = relu_,
                                           .y = as_rows(y),
                                           .mean = mean_,
                                           .rstd = rstd_});
    return y;
  }

  // `y` is the result of a norm with a residual, else undefined.
  void run(const Tensor& given, const Tensor& y, GradSlots dx) {
    std::optional<Tensor> total = early_.take(given);
    Tensor dy = in_format(given, channels_last_format);
    bool masks = relu_;
    if (y.defined()) {
      const Tensor masked = new_like(x_);
      total = sums(dy, {.y = y, .masked = masked});
      dy = masked;
      masks = false;
    } else if (!total) {
      total = sums(dy, {});
    }
    const Tensor gradient = dx[0].needs_grad() ? new_like(x_) : Tensor();
    backend::of(dy).norm.row_batch_backward(
        {.dy = as_rows(dy),
         .x = as_rows(x_),
         .weight = weight_,
         .bias = bias_,
         .mean = mean_,
         .rstd = rstd_,
         .sums = *total,
         .relu = masks,
         .training = options_.training,
         .dx = gradient.defined() ? as_rows(gradient) : Tensor(),
         .dweight = target_of(dx[1]),
         .dbias = target_of(dx[2])});
    if (gradient.defined()) dx[0].add(gradient);
    dx[3].add(std::move(dy));
  }

 private:
  // Tensors of the sums' pass besides those of the norm; each may be undefined.
  struct Pass {
    Tensor y = {}, masked = {}, result = {};
  };

  Tensor sums(const Tensor& dy, const Pass& pass) const {
    const Tensor& x = x_;
    const Tensor total = Tensor::empty({2, x.size(1)}, accumulation_type(x), x.device());
    const auto rows = [](const Tensor& t) { return t.defined() ? as_rows(t) : Tensor(); };
    const Tensor y = rows(pass.y), masked = rows(pass.masked), result = rows(pass.result);
    backend::of(dy).norm.row_batch_sums({.dy = as_rows(dy),
                                         .x = as_rows(x),
                                         .weight = weight_,
                                         .bias = bias_,
                                         .mean = mean_,
                                         .rstd = rstd_,
                                         .relu = relu_,
                                         .y = y,
                                         .masked = masked,
                                         .result = result,
                                         .sums = total});
    return total;
  }

  Saved x_, weight_, bias_, mean_, rstd_;
  BatchNormOptions options_;
  bool relu_;
  EarlyGradients<Tensor> early_;
};

// The statistics outside of training.
void load_statistics(const ChannelsLastBatchNorm& args, const Tensor& mean, const Tensor& rstd) {
  const auto& kernels = backend::of(mean).elementwise;
  kernels.copy(args.running_mean, mean);
  kernels.copy(args.running_variance, rstd);
  kernels.unary(backend::Unary::scale, {1, args.options.eps}, rstd, rstd);
  kernels.unary(backend::Unary::rsqrt, {}, rstd, rstd);
}

}  // namespace

Tensor channels_last_batch_norm(const ChannelsLastBatchNorm& args) {
  const Call call(Op::batch_norm, {args.x, args.weight, args.bias, args.residual});
  const Tensor x = in_format(call[0], channels_last_format),
               residual = in_format(call[3], channels_last_format);
  const Tensor weight = dense(call[1]), bias = dense(call[2]);
  const Tensor y = new_like(x);
  const Tensor mean = Tensor::empty({x.size(1)}, accumulation_type(x), x.device()),
               rstd = Tensor::empty_like(mean);
  const bool training = args.options.training;
  const bool moves = training && !autograd::recomputing();
  if (!training) load_statistics(args, mean, rstd);
  backend::of(x).norm.row_batch_forward(
      {.x = as_rows(x),
       .residual = residual.defined() ? as_rows(residual) : Tensor(),
       .weight = weight,
       .bias = bias,
       .eps = args.options.eps,
       .training = training,
       .relu = args.relu,
       .y = as_rows(y),
       .mean = mean,
       .rstd = rstd,
       .running_mean = moves ? args.running_mean : Tensor(),
       .running_variance = moves ? args.running_variance : Tensor(),
       .momentum = args.options.momentum});
  for (const Tensor* statistic : {&args.running_mean, &args.running_variance})
    if (moves && statistic->defined()) statistic->bump_version();

  const bool keeps_result = residual.defined() && args.relu;
  const auto recompute = std::make_shared<BatchNormRecompute>(
      BatchNormRecompute::Tensors{x, weight, bias, mean, rstd}, args.options, args.relu);
  call.result(y, [recompute, y = Saved(keeps_result ? y : Tensor())](
                     const Tensor& dy, GradSlots dx) { recompute->run(dy, y, dx); });
  if (!residual.defined()) offer_recompute(y, recompute);
  return y;
}

}  // namespace binade::ops
