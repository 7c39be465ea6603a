#include "binade/ops/loss/dpo_loss.h"

#include "binade/amp/autocast.h"
#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

void check(const Tensor& x, const char* argument) {
  if (x.defined() && x.dtype() == DType::f32 && x.rank() == 2 && x.size(1) == 2) return;
  fail("dpo_loss", {.argument = argument,
                    .expected = "f32 [pairs, 2]",
                    .found = x.defined() ? describe(x) : "none"});
}

}  // namespace

DpoLoss dpo_loss(const Tensor& log_probs, const Tensor& reference, const DpoOptions& options) {
  check(log_probs, "log_probs");
  check(reference, "reference");
  ops::require_shape("dpo_loss", "reference", reference, log_probs.shape());
  ops::require_between("dpo_loss", "label_smoothing", options.label_smoothing, 0, 0.5);
  const amp::Autocast off(amp::disabled_autocast());
  const Tensor rewards = (log_probs - reference.detach()) * options.beta;
  const Tensor margin = select(rewards, 1, 0) - select(rewards, 1, 1);
  const Tensor is_right =
      full(margin.shape(), 1 - options.label_smoothing, DType::f32, margin.device());
  return {.loss = bce_with_logits(margin, is_right), .rewards = rewards.detach()};
}

}  // namespace binade
