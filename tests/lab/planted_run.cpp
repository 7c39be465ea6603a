#include "lab/planted_run.h"

#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/copy.h"

namespace binade::lab {

Tensor parameter(train::Trainer& trainer, const std::string& path) {
  for (const auto& [name, tensor] : trainer.model().named_parameters()) {
    if (name == path) return tensor;
  }
  ADD_FAILURE() << path;
  return {};
}

void plant(train::Trainer& trainer, const std::string& path, int64_t at, double value) {
  const NoGrad no_grad;
  const Tensor x = parameter(trainer, path);
  fill_(x.strided({1}, {1}, at), value);
}

void plant_outlier(train::Trainer& trainer, int block) {
  const std::string layer = "blocks." + std::to_string(block) + ".mlp.up.";
  plant(trainer, layer + "weight", 0, 1e5);
  plant(trainer, layer + "bias", 0, -1e9);
}

std::vector<double> take_steps(train::Trainer& trainer, Doctor& doctor, const data::Tokens& tokens,
                               int steps, std::vector<std::string>* notes) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    doctor.before_step(trainer);
    const train::StepResult result = trainer.step(tokens);
    losses.push_back(result.loss);
    for (const std::string& note : doctor.after_step(trainer, tokens, result))
      if (notes != nullptr) notes->push_back(note);
  }
  return losses;
}

}  // namespace binade::lab
