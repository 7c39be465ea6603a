#include "binade/ops/loss/log_probs.h"

#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/loss/loss.h"

namespace binade {

Tensor token_log_probs(const Tensor& logits, const Tensor& tokens) {
  // 0 for certainty, not -0.
  return 0 - cross_entropy(logits, tokens, {.reduce = Reduce::none, .class_axis = -1});
}

}  // namespace binade
