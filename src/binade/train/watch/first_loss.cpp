#include "binade/train/watch/first_loss.h"

#include <fmt/format.h>

namespace binade::train {
namespace {

// Random logits of standard deviation s cost up to s^2 / 2 more than equal ones: twice the loss of
// guessing and 4 nats more is a softmax that has decided before it has seen a token.
constexpr double first_ratio = 2, first_margin = 4;

}  // namespace

std::optional<Alarm> check_first_loss(const RunFacts& run, const StepFacts& step) {
  const double guessing = run.guessing();
  if (step.step != 1 || !(step.loss > first_ratio * guessing + first_margin)) return {};
  return Alarm{
      .cause = Cause::first_loss,
      .step = step.step,
      .finding = fmt::format("the first loss is {:.4g}, and guessing among {} tokens costs {:.3g}",
                             step.loss, run.vocabulary, guessing),
      .advice = run.is_loaded
                    ? "check that the tokenizer and the format of the data are the model's"
                    : "check the scale of the initial weights, of the output layer first"};
}

}  // namespace binade::train
