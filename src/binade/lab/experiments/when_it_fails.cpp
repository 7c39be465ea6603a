#include "binade/lab/experiments.h"

#include <limits>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/nn/language_model.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"

namespace binade::lab {
namespace {

// A small language model in f16 with a planted fault.
struct FaultyModel {
  nn::GPT model{{.layers = 2, .width = 32, .heads = 2, .vocab = 64, .context = 16, .seed = 9}};
  Tensor tokens = randint(0, 64, {4, 16}, {9, 1});
  std::function<Tensor(const Tensor& loss)> add_penalty = [](const Tensor& loss) { return loss; };
  double scale = 1;

  void multiply(const std::string& path, double factor) {
    const NoGrad no_grad;
    for (const auto& [name, tensor] : model.named_parameters())
      if (name == path) copy_(tensor, mul(tensor, factor));
  }

  Diagnosis diagnose_step() {
    const auto loss = [this](const Replay& replay) {
      const amp::Autocast cast(replay.autocast({.enabled = true, .dtype = DType::f16}));
      return add_penalty(model.loss(tokens, tokens));
    };
    return *diagnose({loss, [this](const Replay&) { return model.named_parameters(); }, scale});
  }
};

}  // namespace

WhenItFailsResult when_it_fails_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "A NaN loss does not tell where it came from. The doctor runs the step again and checks "
      "every "
      "value of every op, forward and backward; then it runs the step in f32 to find out whether "
      "precision is to blame. Here are five faulty models, all small language models in f16.");
  WhenItFailsResult result;
  const auto examine = [&](const char* fault, const std::function<void(FaultyModel&)>& plant) {
    FaultyModel faulty;
    plant(faulty);
    report.add_paragraph(fault);
    result.diagnoses.push_back(faulty.diagnose_step());
    report.add_preformatted(to_text(result.diagnoses.back()));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  examine("1. Weights that are too large: an activation exceeds 65504.", [](FaultyModel& faulty) {
    faulty.multiply("blocks.1.mlp.up.weight", 1e4);
    faulty.multiply("blocks.1.mlp.down.weight", 1e4);
  });
  examine("2. A loss scale of 2^30: gradients exceed 65504, activations do not.",
          [](FaultyModel& faulty) { faulty.scale = 0x1p30; });
  examine("3. A penalty term with the logarithm of zero.", [](FaultyModel& faulty) {
    faulty.add_penalty = [](const Tensor& loss) { return loss + log(mul(loss, 0)); };
  });
  examine("4. A weight that became NaN in an earlier update.",
          [nan](FaultyModel& faulty) { faulty.multiply("blocks.0.attention.out.weight", nan); });
  examine("5. A NaN in the data: the weight of a sample.", [nan](FaultyModel& faulty) {
    faulty.add_penalty = [nan](const Tensor& loss) { return loss * full({}, nan); };
  });
  report.add_conclusion(
      "the same symptom has five different causes, and only the first is fixed by another "
      "precision. "
      "The fix follows from the op that produced the first non-finite value, not from the op where "
      "the value was noticed.");
  return result;
}

}  // namespace binade::lab
