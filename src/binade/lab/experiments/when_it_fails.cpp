#include <limits>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/lab/experiments.h"
#include "binade/nn/language_model.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/copy.h"
#include "binade/ops/create.h"
#include "binade/ops/unary.h"

namespace binade::lab {
namespace {

// A small language model in f16, with something wrong with it.
struct Subject {
  nn::GPT model{{.layers = 2, .width = 32, .heads = 2, .vocab = 64, .context = 16, .seed = 9}};
  Tensor tokens = randint(0, 64, {4, 16}, {9, 1});
  std::function<Tensor(const Tensor& loss)> after = [](const Tensor& loss) { return loss; };
  double scale = 1;

  void multiply(const std::string& path, double factor) {
    const NoGrad no_grad;
    for (const auto& [name, tensor] : model.named_parameters())
      if (name == path) copy_(tensor, mul(tensor, factor));
  }

  Diagnosis diagnosis() {
    const auto loss = [this](bool in_f32) {
      const amp::Autocast cast(DType::f16, !in_f32);
      return after(model.loss(tokens, tokens));
    };
    return *diagnose({loss, [this](bool) { return model.named_parameters(); }, scale});
  }
};

}  // namespace

WhenItFailsResult when_it_fails_experiment(ExperimentReport& report) {
  report.say(
      "A loss of NaN says nothing about where it came from. The doctor runs the step again and "
      "looks at every value of every op, forward and backward; then once more in f32, to know "
      "whether precision is to blame. Five patients, all small language models in f16.");
  WhenItFailsResult claims;
  const auto examine = [&](const char* complaint, const std::function<void(Subject&)>& plant) {
    Subject subject;
    plant(subject);
    report.say(complaint);
    claims.diagnoses.push_back(subject.diagnosis());
    report.quote(to_text(claims.diagnoses.back()));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  examine("1. Weights that have grown: an activation passes 65504.", [](Subject& subject) {
    subject.multiply("blocks.1.mlp.up.weight", 1e4);
    subject.multiply("blocks.1.mlp.down.weight", 1e4);
  });
  examine("2. A loss scale of 2^30: gradients pass 65504, activations do not.",
          [](Subject& subject) { subject.scale = 0x1p30; });
  examine("3. A penalty with the logarithm of something that can be zero.", [](Subject& subject) {
    subject.after = [](const Tensor& loss) { return loss + log(mul(loss, 0)); };
  });
  examine("4. An update that went wrong some steps ago.",
          [nan](Subject& subject) { subject.multiply("blocks.0.attention.out.weight", nan); });
  examine("5. A sample weight that is NaN in the data set.", [nan](Subject& subject) {
    subject.after = [nan](const Tensor& loss) { return loss * full({}, nan); };
  });
  report.proves(
      "five runs with the same symptom have five different causes, and only the first is cured by "
      "another precision. What to change follows from where the first bad value was made, not from "
      "where it was noticed.");
  return claims;
}

}  // namespace binade::lab
