#include "binade/ops/loss.h"

#include <limits>

#include "binade/ops/arithmetic.h"
#include "binade/ops/common.h"
#include "binade/ops/create.h"
#include "binade/ops/index.h"
#include "binade/ops/reduce.h"
#include "binade/ops/shape.h"
#include "binade/ops/softmax.h"
#include "binade/ops/unary.h"

namespace binade {
namespace {

using namespace ops;

void check_pair(Op op, const Tensor& x, const Tensor& target) {
  require_compute(name(op), "x", x);
  require_compute(name(op), "target", target);
  require_shape(name(op), "target", target, x.shape());
}

Tensor reduced(const Tensor& losses, Reduce reduce) {
  switch (reduce) {
    case Reduce::mean: return mean(losses);
    case Reduce::sum: return sum(losses);
    case Reduce::none: return losses;
  }
  return losses;
}

Tensor constant(double value, const Tensor& like) { return full({}, value, like.dtype(), like.device()); }

// 1 where a target counts, in the losses' type.
Tensor counted(const Tensor& target, int64_t ignore_index, const Tensor& like) {
  const Tensor ignored = full({}, static_cast<double>(ignore_index), DType::i64, target.device());
  return cast(not_equal(target, ignored), like.dtype());
}

// Targets with the ignored ones replaced by class 0, so that they can index.
Tensor indexable(const Tensor& target, int64_t ignore_index) {
  const Tensor wide = cast(target, DType::i64);
  const Tensor ignored = full({}, static_cast<double>(ignore_index), DType::i64, target.device());
  return where(not_equal(wide, ignored), wide, full({}, 0, DType::i64, target.device()));
}

Tensor reduced_by_count(const Tensor& losses, const Tensor& counts, Reduce reduce) {
  if (reduce != Reduce::mean) return reduced(losses, reduce);
  return sum(losses) / sum(counts);
}

}  // namespace

Tensor cross_entropy_composite(const Tensor& logits, const Tensor& target, CrossEntropyOptions options) {
  Composite call(Op::cross_entropy, {logits});
  const Tensor log_p = log_softmax(cast(call[0], statistics_type(call[0])));
  const Tensor counts = counted(target, options.ignore_index, log_p);
  const Tensor picked = squeeze(gather(log_p, -1, unsqueeze(indexable(target, options.ignore_index), -1)), -1);
  Tensor losses = mul(picked, -(1 - options.smoothing));
  if (options.smoothing > 0) losses = losses - mul(mean(log_p, {-1}), options.smoothing);
  // An ignored row may hold anything, also infinities: choose zero rather than multiply by it.
  losses = where(greater(counts, constant(0, counts)), losses, constant(0, losses));
  return call.result(reduced_by_count(losses, counts, options.reduce));
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, Reduce reduce, int64_t ignore_index) {
  require_compute("nll_loss", "log_probabilities", log_probabilities);
  require_index("nll_loss", "target", target);
  if (log_probabilities.rank() != target.rank() + 1) {
    fail("nll_loss", {.argument = "target", .expected = "one dimension fewer than " + describe(log_probabilities), .found = describe(target)});
  }
  Composite call(Op::nll_loss, {log_probabilities});
  const Tensor counts = counted(target, ignore_index, call[0]);
  const Tensor picked = squeeze(gather(call[0], -1, unsqueeze(indexable(target, ignore_index), -1)), -1);
  const Tensor losses = where(greater(counts, constant(0, counts)), neg(picked), constant(0, picked));
  return call.result(reduced_by_count(losses, counts, reduce));
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduce reduce) {
  check_pair(Op::mse_loss, x, target);
  Composite call(Op::mse_loss, {x, target});
  return call.result(reduced(square(call[0] - call[1]), reduce));
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduce reduce) {
  check_pair(Op::l1_loss, x, target);
  Composite call(Op::l1_loss, {x, target});
  return call.result(reduced(abs(call[0] - call[1]), reduce));
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduce reduce, double beta) {
  check_pair(Op::smooth_l1_loss, x, target);
  if (!(beta >= 0)) fail("smooth_l1_loss", {.argument = "beta", .expected = "at least 0", .found = std::to_string(beta)});
  if (beta == 0) return l1_loss(x, target, reduce);
  Composite call(Op::smooth_l1_loss, {x, target});
  const Tensor distance = abs(call[0] - call[1]);
  const Tensor near = mul(square(distance), 0.5 / beta);
  return call.result(reduced(where(less(distance, constant(beta, distance)), near, distance - 0.5 * beta), reduce));
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduce reduce, double delta) {
  check_pair(Op::huber_loss, x, target);
  if (!(delta > 0)) fail("huber_loss", {.argument = "delta", .expected = "more than 0", .found = std::to_string(delta)});
  Composite call(Op::huber_loss, {x, target});
  const Tensor distance = abs(call[0] - call[1]);
  const Tensor far = mul(distance - 0.5 * delta, delta);
  return call.result(reduced(where(less_equal(distance, constant(delta, distance)), mul(square(distance), 0.5), far), reduce));
}

// (1 - t) x + (1 + (w - 1) t) softplus(-x)
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduce reduce, const Tensor& pos_weight) {
  check_pair(Op::bce_with_logits, logits, target);
  Composite call(Op::bce_with_logits, {logits, target, pos_weight});
  const Tensor negative = mul(call[1], -1) + 1.0;
  Tensor tail = softplus(neg(call[0]));
  if (pos_weight.defined()) tail = tail * (((call[2] - 1.0) * call[1]) + 1.0);
  return call.result(reduced(negative * call[0] + tail, reduce));
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target, Reduce reduce) {
  check_pair(Op::binary_cross_entropy, probabilities, target);
  Composite call(Op::binary_cross_entropy, {probabilities, target});
  // Logarithms are cut off at -100, so that a wrong certainty costs much but not infinity.
  const double bound = std::numeric_limits<double>::infinity();
  const Tensor yes = clamp(log(call[0]), -100, bound), no = clamp(log1p(neg(call[0])), -100, bound);
  return call.result(reduced(neg(call[1] * yes + (mul(call[1], -1) + 1.0) * no), reduce));
}

Tensor kl_div(const Tensor& x, const Tensor& target, Reduce reduce, bool log_target) {
  check_pair(Op::kl_div, x, target);
  Composite call(Op::kl_div, {x, target});
  if (log_target) return call.result(reduced(exp(call[1]) * (call[1] - call[0]), reduce));
  // 0 log 0 counts as 0.
  const Tensor positive = greater(call[1], constant(0, call[1]));
  const Tensor entropy = where(positive, call[1] * log(call[1]), constant(0, call[1]));
  return call.result(reduced(entropy - call[1] * call[0], reduce));
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis, double eps) {
  require_compute("cosine_similarity", "a", a);
  require_compute("cosine_similarity", "b", b);
  Composite call(Op::cosine_similarity, {a, b});
  const Tensor floor = constant(eps, call[0]);
  const Tensor lengths = maximum(norm(call[0], 2, {axis}, true), floor), others = maximum(norm(call[1], 2, {axis}, true), floor);
  return call.result(sum((call[0] / lengths) * (call[1] / others), {axis}));
}

Tensor cdist(const Tensor& a, const Tensor& b) {
  require_compute("cdist", "a", a);
  require_compute("cdist", "b", b);
  if (a.rank() < 2 || b.rank() < 2 || a.size(-1) != b.size(-1)) {
    fail("cdist", {.argument = "operands", .expected = "[..., m, d] and [..., n, d]", .found = describe(a) + " and " + describe(b)});
  }
  Composite call(Op::cdist, {a, b});
  return call.result(norm(unsqueeze(call[0], -2) - unsqueeze(call[1], -3), 2, {-1}));
}

Tensor cross(const Tensor& a, const Tensor& b, int64_t axis) {
  require_compute("cross", "a", a);
  require_shape("cross", "b", b, a.shape());
  const int at = normalize_axis("cross", axis, a.rank());
  if (a.size(at) != 3) fail("cross", {.argument = "axis", .expected = "a size of 3", .found = describe(a)});
  Composite call(Op::cross, {a, b});
  // Component i is a[i + 1] b[i + 2] - a[i + 2] b[i + 1], counting round.
  const auto turned = [at](const Tensor& x, int64_t by) { return cat({slice(x, at, by, 3), slice(x, at, 0, by)}, at); };
  return call.result(turned(call[0], 1) * turned(call[1], 2) - turned(call[0], 2) * turned(call[1], 1));
}

}  // namespace binade
