#include "binade/ops/loss/margin_loss.h"

#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

void check(Op op, std::initializer_list<Tensor> inputs, double margin) {
  for (const Tensor& input : inputs) {
    require_compute(name(op), "input", input);
    broadcast(name(op).data(), input.shape(), inputs.begin()->shape());
  }
  require_finite(name(op), "margin", margin);
}

}  // namespace

Tensor soft_margin_loss(const Tensor& x, const Tensor& y, Reduce reduce) {
  check(Op::soft_margin_loss, {x, y}, 0);
  Composite call(Op::soft_margin_loss, {x, y});
  return call.result(reduced_loss(softplus(neg(call[1] * call[0])), reduce));
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin,
                           Reduce reduce) {
  check(Op::margin_ranking_loss, {a, b, y}, margin);
  Composite call(Op::margin_ranking_loss, {a, b, y});
  return call.result(reduced_loss(relu(call[2] * (call[1] - call[0]) + margin), reduce));
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, Reduce reduce) {
  check(Op::triplet_margin_loss, {anchor, positive, negative}, margin);
  Composite call(Op::triplet_margin_loss, {anchor, positive, negative});
  // The small offset keeps the root differentiable if two points coincide.
  const auto distance = [&](size_t other) { return norm(call[0] - call[other] + 1e-6, 2, {-1}); };
  return call.result(reduced_loss(relu(distance(1) - distance(2) + margin), reduce));
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, double margin, Reduce reduce) {
  check(Op::multi_margin_loss, {x}, margin);
  require_rank("multi_margin_loss", "x", x, 2);
  require_index("multi_margin_loss", "target", target);
  require_shape("multi_margin_loss", "target", target, {x.size(0)});
  require_device("multi_margin_loss", "target", target, x);
  const Tensor targets = dense(target);
  require_classes("multi_margin_loss", targets, x.size(1), 0);
  Composite call(Op::multi_margin_loss, {x});
  const Tensor right = unsqueeze(cast(targets, DType::i64), 1);
  const Tensor terms = relu(call[0] - gather(call[0], 1, right) + margin);
  const Tensor others = not_equal(unsqueeze(arange(x.size(1), DType::i64, x.device()), 0), right);
  const Tensor kept = where(others, terms, full({}, 0, terms.dtype(), x.device()));
  return call.result(reduced_loss(sum(kept, {1}) / static_cast<double>(x.size(1)), reduce));
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y, double margin, Reduce reduce) {
  check(Op::hinge_embedding_loss, {x, y}, margin);
  Composite call(Op::hinge_embedding_loss, {x, y});
  const Tensor positive = greater(call[1], full({}, 0, call[1].dtype(), x.device()));
  return call.result(
      reduced_loss(where(positive, call[0], relu(mul(call[0], -1) + margin)), reduce));
}

}  // namespace binade
