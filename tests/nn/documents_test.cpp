// Documents that share a sequence.
#include <gtest/gtest.h>

#include "binade/base/random.h"
#include "binade/nn/language_model.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"

namespace binade::nn {
namespace {

LanguageModelConfig learned() {
  return {.layers = 2, .width = 16, .heads = 2, .hidden = 32, .vocab = 20, .context = 12};
}

LanguageModelConfig rotary() {
  LanguageModelConfig config = learned();
  config.norm = NormKind::rms;
  config.bias = config.learned_positions = false;
  config.gated = true;
  config.kv_heads = 1;
  return config;
}

LanguageModelConfig sandwiched() {
  LanguageModelConfig config = rotary();
  config.block = BlockKind::sandwich;
  config.window = 3;
  config.attention_softcap = 5;
  return config;
}

LanguageModelConfig recomputed() {
  LanguageModelConfig config = rotary();
  config.activations = nn::Activations::recompute();
  return config;
}

class PackedDocuments : public ::testing::TestWithParam<LanguageModelConfig (*)()> {};

// Losses and gradients are those of the documents by themselves.
TEST_P(PackedDocuments, AreComputedAsIfAlone) {
  LanguageModel model(GetParam()());
  random::begin_step(3, 0);
  for (const Tensor& parameter : model.parameters()) {
    const Tensor noise = randn(parameter.shape());
    add_(parameter.detach(), noise, 0.2);
  }
  const Tensor tokens = randint(0, 20, {2, 12}), targets = randint(0, 20, {2, 12});
  const std::vector<int64_t> documents = {0, 5, 12, 13, 20, 24};
  const CrossEntropyOptions sums{.reduce = Reduce::sum};

  const Tensor packed = model.loss(tokens, targets, sums, documents);
  packed.backward();
  std::vector<std::vector<double>> gradients;
  for (const Tensor& parameter : model.parameters())
    gradients.push_back(to_vector(parameter.grad()));
  model.zero_grad();

  double sum = 0;
  for (size_t i = 0; i + 1 < documents.size(); ++i) {
    const int64_t begin = documents[i], end = documents[i + 1];
    const auto alone = [&](const Tensor& x) {
      return reshape(slice(reshape(x, {24}), 0, begin, end), {1, end - begin});
    };
    const Tensor loss = model.loss(alone(tokens), alone(targets), sums);
    sum += loss.item();
    loss.backward();
  }
  EXPECT_NEAR(packed.item(), sum, 1e-5 * sum);
  const std::vector<Tensor> parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<double> expected = to_vector(parameters[i].grad());
    for (size_t k = 0; k < expected.size(); ++k)
      ASSERT_NEAR(gradients[i][k], expected[k], 2e-4) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PackedDocuments,
                         ::testing::Values(learned, rotary, sandwiched, recomputed));

}  // namespace
}  // namespace binade::nn
