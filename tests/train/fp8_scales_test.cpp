#include "binade/train/fp8_scales.h"

#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/train/trainer.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

const std::string module = "blocks.1.mlp.up";

std::vector<double> buffer(Trainer& trainer, const std::string& name) {
  for (const auto& [path, tensor] : trainer.model().named_buffers()) {
    if (path == module + ".fp8." + name) return to_vector(tensor);
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(DelayedScales, AreUsedByTheMatmulsOfTheirOperands) {
  struct Case {
    bool forward, dgrad, wgrad, input, weight, gradient;
  };
  const Case cases[] = {
      {true, true, true, true, true, true},    {false, true, true, true, true, true},
      {false, false, true, true, false, true}, {false, true, false, false, true, true},
      {true, false, false, true, true, false}, {false, false, false, false, false, false}};
  for (const Case& one : cases) {
    const DelayedScales used =
        delayed_scales({.forward = one.forward, .dgrad = one.dgrad, .wgrad = one.wgrad});
    EXPECT_EQ(used.input, one.input);
    EXPECT_EQ(used.weight, one.weight);
    EXPECT_EQ(used.gradient, one.gradient);
  }
  EXPECT_FALSE(delayed_scales({.scaling = amp::Fp8Scaling::row}).input);
}

TEST(RecipeOf, IsThatOfTheLongestPath) {
  amp::RecipeState state{.enabled = true, .recipe = {.history = 16}};
  state.overrides["blocks.1"] = {.scaling = amp::Fp8Scaling::row};
  state.recipe.exclude = {"blocks.0"};
  EXPECT_EQ(recipe_of(state, module)->scaling, amp::Fp8Scaling::row);
  EXPECT_EQ(recipe_of(state, "blocks.2.mlp.up")->history, 16);
  EXPECT_FALSE(recipe_of(state, "blocks.0.mlp.up"));
}

// A layer that comes back to delayed scaling after its weights have shrunk by 2^10: the scale is
// that of the weights of now, and the old amax is out of the history.
TEST(RestartScales, FollowFromTheGivenAmaxes) {
  Config config = small_config("fp8");
  config.fp8_history = 4;
  Trainer trainer(config);
  for (int i = 0; i < 3; ++i) trainer.step(small_tokens());
  const std::vector<double> before = buffer(trainer, "input.scale");
  const amp::Recipe recipe = *recipe_of(trainer.fp8(), module);
  trainer.set_recipe(module, recipe, {.weight = 7, .gradient = 0.5});
  EXPECT_EQ(buffer(trainer, "input.scale"), before);
  // The largest numbers of e4m3 and e5m2.
  EXPECT_EQ(buffer(trainer, "weight.scale"), std::vector<double>{448.0 / 7});
  EXPECT_EQ(buffer(trainer, "weight.inverse"), std::vector<double>{7.0 / 448});
  EXPECT_EQ(buffer(trainer, "gradient.scale"), std::vector<double>{57344.0 * 2});
  EXPECT_EQ(buffer(trainer, "weight.history"), std::vector<double>(4, 0));
  trainer.step(small_tokens());
  EXPECT_EQ(buffer(trainer, "weight.history"), (std::vector<double>{7, 0, 0, 0}));
  EXPECT_EQ(buffer(trainer, "weight.scale"), std::vector<double>{448.0 / 7});
}

}  // namespace
}  // namespace binade::train
