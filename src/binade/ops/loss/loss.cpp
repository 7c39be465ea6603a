#include "binade/ops/loss/loss.h"

#include <algorithm>
#include <limits>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/common.h"
#include "binade/ops/composed.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/loss/class_axis.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

void check_pair(Op op, const Tensor& x, const Tensor& target) {
  require_compute(name(op), "x", x);
  require_compute(name(op), "target", target);
  require_shape(name(op), "target", target, x.shape());
}

Tensor constant(double value, const Tensor& like) {
  return full({}, value, like.dtype(), like.device());
}

// x, or 0 where it is not used: the gradient of an infinite square is NaN, also times 0.
Tensor or_zero(const Tensor& is_used, const Tensor& x) { return where(is_used, x, constant(0, x)); }

DType result_type_of_loss(const Tensor& x, const Tensor& target) {
  return promote(x.dtype(), target.dtype());
}

// 1 for targets that count, else 0, in the losses' type.
Tensor counted(const Tensor& target, int64_t ignore_index, const Tensor& like) {
  const Tensor ignored = full({}, static_cast<double>(ignore_index), DType::i64, target.device());
  return cast(not_equal(target, ignored), like.dtype());
}

// The targets with ignored ones replaced by class 0, a valid index.
Tensor indexable(const Tensor& target, int64_t ignore_index) {
  const Tensor wide = cast(target, DType::i64);
  const Tensor ignored = full({}, static_cast<double>(ignore_index), DType::i64, target.device());
  return where(not_equal(wide, ignored), wide, full({}, 0, DType::i64, target.device()));
}

Tensor reduced_by_count(const Tensor& losses, const Tensor& counts, Reduce reduce) {
  if (reduce != Reduce::mean) return reduced_loss(losses, reduce);
  return sum(losses) / sum(counts);
}

// The cross entropy of class numbers: log_p [..., classes], target [...].
Tensor entropy_of_classes(const Tensor& log_p, const Tensor& target,
                          const CrossEntropyOptions& options) {
  const Tensor counts = counted(target, options.ignore_index, log_p);
  const Tensor classes = indexable(target, options.ignore_index);
  const Tensor picked = squeeze(gather(log_p, -1, unsqueeze(classes, -1)), -1);
  Tensor losses = mul(picked, -(1 - options.smoothing)), weights = counts;
  if (options.weight.defined()) {
    const Tensor own =
        reshape(index_select(options.weight, 0, reshape(classes, {-1})), target.shape());
    losses = losses * own;
    weights = weights * own;
  }
  if (options.smoothing > 0) {
    const Tensor all = options.weight.defined() ? log_p * options.weight : log_p;
    losses = losses - mul(mean(all, {-1}), options.smoothing);
  }
  // An ignored row may hold infinities: select zero rather than multiply by it.
  losses = where(greater(counts, constant(0, counts)), losses, constant(0, losses));
  return reduced_by_count(losses, weights, options.reduce);
}

// The cross entropy of probabilities: log_p and target [..., classes].
Tensor entropy_of_probabilities(const Tensor& log_p, const Tensor& target,
                                const CrossEntropyOptions& options) {
  require_compute("cross_entropy", "target", target);
  require_shape("cross_entropy", "target", target, log_p.shape());
  require_device("cross_entropy", "target", target, log_p);
  require_between("cross_entropy", "smoothing", options.smoothing, 0, 1);
  const auto classes = static_cast<double>(log_p.size(-1));
  Tensor p = cast(target, log_p.dtype());
  if (options.smoothing > 0) p = p * (1 - options.smoothing) + options.smoothing / classes;
  if (options.weight.defined()) p = p * options.weight;
  return reduced_loss(neg(sum(p * log_p, {-1})), options.reduce);
}

// The binary cross entropy of each probability p, with PyTorch's bounds: logarithms of at least
// -100, so that a confident mistake has a finite loss, and a gradient (p - t) / (p (1 - p)) whose
// denominator is at least 1e-12.
Tensor element_entropies(const Tensor& p, const Tensor& target) {
  const auto logs = [](const Tensor& p, double least) {
    const double most = std::numeric_limits<double>::infinity();
    return std::pair(clamp(log(p), least, most), clamp(log1p(neg(p)), least, most));
  };
  const Call call(Op::binary_cross_entropy, {p, target});
  const Tensor losses = [&] {
    const NoGrad plain;
    const auto [yes, no] = logs(call[0], -100);
    return neg(call[1] * yes + (mul(call[1], -1) + 1.0) * no);
  }();
  return call.result(
      losses, [logs, p = Saved(call[0]), target = Saved(call[1])](const Tensor& dy, GradSlots dx) {
        if (dx[0].needs_grad()) {
          const Tensor spread = clamp(p.get() * (mul(p.get(), -1) + 1.0), 1e-12, 1);
          dx[0].add(dy * (p.get() - target.get()) / spread);
        }
        if (dx[1].needs_grad()) {
          const auto [yes, no] = logs(p, -std::numeric_limits<double>::infinity());
          dx[1].add(dy * (no - yes));
        }
      });
}

}  // namespace

Tensor reduced_loss(const Tensor& losses, Reduce reduce) {
  switch (reduce) {
    case Reduce::mean:
      return mean(losses);
    case Reduce::sum:
      return sum(losses);
    case Reduce::none:
      return losses;
  }
  return losses;
}

Tensor cross_entropy_composite(const Tensor& logits, const Tensor& target,
                               const CrossEntropyOptions& given) {
  CrossEntropyOptions options = given;
  if (options.weight.defined()) {
    require_compute("cross_entropy", "weight", options.weight);
    require_shape("cross_entropy", "weight", options.weight, {logits.size(-1)});
    require_device("cross_entropy", "weight", options.weight, logits);
  }
  Composite call(Op::cross_entropy, {logits});
  const Tensor log_p = log_softmax(cast(call[0], accumulation_type(call[0])));
  if (options.weight.defined()) options.weight = cast(options.weight, log_p.dtype());
  return call.result(is_floating(target.dtype()) ? entropy_of_probabilities(log_p, target, options)
                                                 : entropy_of_classes(log_p, target, options));
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, Reduce reduce,
                int64_t ignore_index, std::optional<int64_t> class_axis) {
  require_compute("nll_loss", "log_probabilities", log_probabilities);
  require_index("nll_loss", "target", target);
  if (log_probabilities.rank() == 0) {
    fail("nll_loss", {.argument = "log_probabilities",
                      .expected = "[..., classes]",
                      .found = describe(log_probabilities)});
  }
  const int axis = ops::class_axis("nll_loss", log_probabilities, target, class_axis);
  if (axis != log_probabilities.rank() - 1)
    return nll_loss(movedim(log_probabilities, axis, -1), target, reduce, ignore_index, -1);
  Shape expected = log_probabilities.shape();
  expected.erase(expected.rank() - 1);
  require_shape("nll_loss", "target", target, expected);
  require_device("nll_loss", "target", target, log_probabilities);
  const Tensor targets = dense(target);
  require_classes("nll_loss", targets, log_probabilities.size(-1), ignore_index);
  Composite call(Op::nll_loss, {log_probabilities});
  const Tensor counts = counted(targets, ignore_index, call[0]);
  const Tensor picked =
      squeeze(gather(call[0], -1, unsqueeze(indexable(targets, ignore_index), -1)), -1);
  const Tensor losses =
      where(greater(counts, constant(0, counts)), neg(picked), constant(0, picked));
  return call.result(reduced_by_count(losses, counts, reduce));
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduce reduce) {
  check_pair(Op::mse_loss, x, target);
  Composite call(Op::mse_loss, {x, target});
  return call.result(reduced_loss(square(call[0] - call[1]), reduce));
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduce reduce) {
  check_pair(Op::l1_loss, x, target);
  Composite call(Op::l1_loss, {x, target});
  return call.result(reduced_loss(abs(call[0] - call[1]), reduce));
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduce reduce, double beta) {
  check_pair(Op::smooth_l1_loss, x, target);
  require_between("smooth_l1_loss", "beta", beta, 0, std::numeric_limits<double>::max());
  if (beta == 0) return l1_loss(x, target, reduce);
  Composite call(Op::smooth_l1_loss, {x, target});
  const Tensor distance = abs(call[0] - call[1]);
  const Tensor is_near = less(distance, constant(beta, distance));
  const Tensor near = mul(square(or_zero(is_near, distance)), 0.5 / beta);
  return call.result(reduced_loss(where(is_near, near, distance - 0.5 * beta), reduce));
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduce reduce, double delta) {
  check_pair(Op::huber_loss, x, target);
  require_between("huber_loss", "delta", delta, std::numeric_limits<double>::min(),
                  std::numeric_limits<double>::max());
  Composite call(Op::huber_loss, {x, target});
  const Tensor distance = abs(call[0] - call[1]);
  const Tensor far = mul(distance - 0.5 * delta, delta);
  const Tensor is_near = less_equal(distance, constant(delta, distance));
  const Tensor near = mul(square(or_zero(is_near, distance)), 0.5);
  return call.result(reduced_loss(where(is_near, near, far), reduce));
}

// (1 - t) x + w softplus(-x), w being 1 + (pos_weight - 1) t, in f32 (f64 for f64). softplus(-x) is
// max(-x, 0) + softplus(-|x|): factors of x are added first, so that the small rest stays where
// they cancel, in the gradient, too.
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduce reduce,
                       const Tensor& pos_weight) {
  check_pair(Op::bce_with_logits, logits, target);
  if (pos_weight.defined()) {
    require_compute("bce_with_logits", "pos_weight", pos_weight);
    if (broadcast("bce_with_logits", pos_weight.shape(), logits.shape()) != logits.shape()) {
      fail("bce_with_logits", {.argument = "pos_weight",
                               .expected = "a shape that broadcasts to " + describe(logits),
                               .found = describe(pos_weight)});
    }
  }
  Composite call(Op::bce_with_logits, {logits, target, pos_weight});
  const DType type = result_type_of_loss(call[0], call[1]);
  const Tensor x = cast(call[0], binade::accumulation_type(type)), t = cast(call[1], x.dtype());
  const Tensor is_negative = less(x, constant(0, x));
  Tensor weight = constant(1, x), small = softplus(where(is_negative, x, neg(x)));
  if (pos_weight.defined()) {
    weight = (cast(call[2], x.dtype()) - 1.0) * t + 1.0;
    small = small * weight;
  }
  const Tensor factor = (mul(t, -1) + 1.0) - where(is_negative, weight, constant(0, x));
  const Tensor losses = factor * x + small;
  return call.result(cast(reduced_loss(losses, reduce), type));
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target, Reduce reduce) {
  check_pair(Op::binary_cross_entropy, probabilities, target);
  Composite call(Op::binary_cross_entropy, {probabilities, target});
  return call.result(reduced_loss(element_entropies(call[0], call[1]), reduce));
}

Tensor kl_div(const Tensor& x, const Tensor& target, Reduce reduce, bool log_target) {
  check_pair(Op::kl_div, x, target);
  Composite call(Op::kl_div, {x, target});
  if (log_target) return call.result(reduced_loss(exp(call[1]) * (call[1] - call[0]), reduce));
  // 0 log 0 counts as 0.
  const Tensor positive = greater(call[1], constant(0, call[1]));
  const Tensor entropy = where(positive, call[1] * log(call[1]), constant(0, call[1]));
  return call.result(reduced_loss(entropy - call[1] * call[0], reduce));
}

}  // namespace binade
