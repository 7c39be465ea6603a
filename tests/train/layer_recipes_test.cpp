#include "binade/train/layer_recipes.h"

#include <gtest/gtest.h>

#include "binade/amp/recipe/text.h"
#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/train/trainer.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using amp::Role;

const std::string module = "blocks.1.mlp.up";

std::vector<double> buffer(Trainer& trainer, const std::string& name) {
  for (const auto& [path, tensor] : trainer.model().named_buffers()) {
    if (path == module + ".scales." + name) return to_vector(tensor);
  }
  ADD_FAILURE() << name;
  return {};
}

Amaxes amaxes(std::initializer_list<std::pair<Role, double>> values) {
  Amaxes result;
  for (const auto& [role, amax] : values) result[role] = amax;
  return result;
}

Config with_hidden() {
  Config config = small_config("fp8");
  config.model.family = ModelFamily::llama;
  config.precision.recipe.set_hidden(true);
  return config;
}

TEST(UsedScales, AreThoseOfTheMatmulsOperands) {
  struct Case {
    bool forward, dgrad, wgrad, input, weight, gradient;
  };
  const Case cases[] = {
      {true, true, true, true, true, true},    {false, true, true, true, true, true},
      {false, false, true, true, false, true}, {false, true, false, false, true, true},
      {true, false, false, true, true, false}, {false, false, false, false, false, false}};
  amp::Recipe recipe = amp::recipes::delayed();
  for (const Case& one : cases) {
    recipe.matmuls = {one.forward, one.dgrad, one.wgrad};
    const amp::RoleMap<bool> used = used_scales(recipe);
    EXPECT_EQ(used[Role::input], one.input);
    EXPECT_EQ(used[Role::weight], one.weight);
    EXPECT_EQ(used[Role::gradient], one.gradient);
    EXPECT_FALSE(used[Role::hidden]);
  }
}

TEST(UsedScales, AreDelayedOnes) {
  EXPECT_EQ(used_scales(amp::recipes::row()), amp::RoleMap<bool>());
  const amp::RoleMap<bool> used =
      used_scales(amp::parse_recipe("delayed, gradient.source = \"current\""));
  EXPECT_TRUE(used[Role::input] && used[Role::weight]);
  EXPECT_FALSE(used[Role::gradient]);
}

// SwiGLU's input is stored only if all three matmuls are quantized.
TEST(UsedScales, HiddenIsAmongThem) {
  amp::Recipe recipe = amp::parse_recipe("delayed, hidden = true");
  EXPECT_TRUE(used_scales(recipe)[Role::hidden]);
  recipe.matmuls.wgrad = false;
  EXPECT_FALSE(used_scales(recipe)[Role::hidden]);
}

TEST(RecipeOf, IsThatOfTheLongestPath) {
  amp::RecipeState state{.enabled = true, .recipe = amp::parse_recipe("delayed, history = 7")};
  state.overrides["blocks.1"] = amp::recipes::row();
  state.recipe.exclude = {"blocks.0"};
  EXPECT_EQ(recipe_of(state, module), amp::recipes::row());
  EXPECT_EQ(recipe_of(state, "blocks.2.mlp.up"), state.recipe);
  EXPECT_FALSE(recipe_of(state, "blocks.0.mlp.up"));
}

// Hidden values have scales in layers that feed SwiGLU alone.
TEST(DelayedScales, AreTheModelsOwnByModuleAndRole) {
  Trainer trainer(with_hidden());
  trainer.step(small_tokens());
  amp::RecipeState state = trainer.recipes();
  state.overrides["blocks.0"] = amp::recipes::row();
  state.overrides["blocks.1.mlp.down"] = amp::parse_recipe("delayed, matmuls = [\"forward\"]");
  const auto scales = delayed_scales(trainer.model(), state);
  EXPECT_FALSE(scales.contains("blocks.0.mlp.up"));
  const amp::RoleMap<Tensor>& up = scales.at(module);
  for (const Role role : amp::layer_roles) {
    ASSERT_TRUE(up[role].defined()) << name(role);
    EXPECT_EQ(to_vector(up[role]), buffer(trainer, std::string(name(role)) + ".scale"));
  }
  const amp::RoleMap<Tensor>& down = scales.at("blocks.1.mlp.down");
  EXPECT_TRUE(down[Role::input].defined() && down[Role::weight].defined());
  EXPECT_FALSE(down[Role::gradient].defined() || down[Role::hidden].defined());
  EXPECT_TRUE(delayed_scales(trainer.model(), {}).empty());
}

// A layer that comes back to delayed scaling after its weights have shrunk by 2^10: the scale is
// that of the weights of now, and the old amax is out of the history.
TEST(RestartScales, FollowFromTheGivenAmaxes) {
  Trainer trainer(small_config("fp8"));
  for (int i = 0; i < 3; ++i) trainer.step(small_tokens());
  const std::vector<double> before = buffer(trainer, "input.scale");
  const amp::Recipe recipe = *recipe_of(trainer.recipes(), module);
  trainer.set_recipe(module, recipe, amaxes({{Role::weight, 7}, {Role::gradient, 0.5}}));
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

// 448 / 3 rounded down to a power of two.
TEST(RestartScales, OfHiddenValuesArePowersOfTwo) {
  Trainer trainer(with_hidden());
  for (int i = 0; i < 3; ++i) trainer.step(small_tokens());
  const amp::Recipe recipe = *recipe_of(trainer.recipes(), module);
  trainer.set_recipe(module, recipe, amaxes({{Role::hidden, 3}}));
  EXPECT_EQ(buffer(trainer, "hidden.scale"), std::vector<double>{128});
  EXPECT_EQ(buffer(trainer, "hidden.inverse"), std::vector<double>{1.0 / 128});
  EXPECT_EQ(buffer(trainer, "hidden.history"), std::vector<double>(4, 0));
  trainer.step(small_tokens());
  EXPECT_EQ(buffer(trainer, "hidden.history"), (std::vector<double>{3, 0, 0, 0}));
}

}  // namespace
}  // namespace binade::train
