#include "binade/train/watch/first_loss.h"

#include <fmt/format.h>

namespace binade::train {
namespace {

// Random logits of standard deviation s cost up to s^2 / 2 more than equal ones: twice the loss of
// guessing and 4 nats more is a softmax that has decided before it has seen a token.
constexpr double first_ratio = 2, first_margin = 4;
// A model that is certain of other tokens than the data's costs some times guessing; beyond this
// the weights have another scale than they were trained at.
constexpr double foreign_ratio = 8;

std::string first_advice(const RunFacts& run, double loss) {
  if (!run.is_loaded) return "check the scale of the initial weights, of the output layer first";
  if (loss > foreign_ratio * run.guessing())
    return "check the scale of the weights in the folder, of the output layer first";
  return "check that the tokenizer and the format of the data are the model's";
}

}  // namespace

std::optional<Alarm> check_first_loss(const RunFacts& run, const StepFacts& step) {
  const double guessing = run.guessing();
  if (step.step != 1 || !(step.loss > first_ratio * guessing + first_margin)) return {};
  return Alarm{
      .cause = Cause::first_loss,
      .step = step.step,
      .finding = fmt::format("the first loss is {:.4g}, and guessing among {} tokens costs {:.3g}",
                             step.loss, run.vocabulary, guessing),
      .advice = first_advice(run, step.loss)};
}

void name_parameter(Alarm& alarm, const std::string& name) {
  alarm.module = name;
  if (alarm.cause == Cause::first_loss && !name.empty())
    alarm.advice = fmt::format("check the scale of {}", name);
}

}  // namespace binade::train
