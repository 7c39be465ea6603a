#include "binade/train/config/component_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ComponentOptions, RunsHaveTheRecipeOfTheirConfiguration) {
  Config config = small_config("fp8");
  config.precision.recipe = amp::parse_recipe(
      "delayed, format = \"e4m3\", history = 7, margin = 3, skip_first = 1, skip_last = 2, "
      "head = true, hidden = true");
  const amp::RecipeState state = recipe_state(config);
  EXPECT_TRUE(state.enabled);
  EXPECT_EQ(state.recipe, config.precision.recipe);
  EXPECT_TRUE(state.overrides.empty());
  EXPECT_FALSE(recipe_state(small_config("bf16")).enabled);
}

// One rounding of the f32 gradient; those of the head, the embedding and the norms stay f32.
TEST(ComponentOptions, GradientsInBf16AreThoseInF32RoundedOnce) {
  for (const ParameterStorage params : {ParameterStorage::masters, ParameterStorage::split}) {
    Config config = small_config("bf16");
    config.precision.params = params;
    const auto gradients = [&](DType dtype) {
      config.precision.gradients = dtype;
      const auto model = make_model(config, placement(config));
      const Tensor tokens = zeros({1, config.model.context}, DType::i64);
      model->loss(tokens, tokens).backward();
      std::map<std::string, Tensor> result;
      for (const auto& [name, parameter] : model->named_parameters())
        result[name] = parameter.grad();
      return result;
    };
    const auto wide = gradients(DType::f32), rounded = gradients(DType::bf16);
    int64_t matrices = 0;
    for (const auto& [name, gradient] : wide) {
      EXPECT_EQ(gradient.dtype(), DType::f32) << name;
      const bool is_matrix = name.starts_with("blocks.") && gradient.rank() == 2;
      matrices += is_matrix ? 1 : 0;
      EXPECT_EQ(rounded.at(name).dtype(), is_matrix ? DType::bf16 : DType::f32) << name;
      EXPECT_EQ(to_vector(rounded.at(name)), to_vector(cast(gradient, rounded.at(name).dtype())))
          << name;
    }
    EXPECT_EQ(matrices, 4 * config.model.layers);
  }
}

// A cooldown takes the last fifth of the steps after the warmup.
TEST(ComponentOptions, ACooldownIsAFifthOfTheStepsAfterTheWarmup) {
  Config config = small_config();
  config.train.schedule = optim::ScheduleKind::cooldown;
  config.train.warmup = 10;
  config.train.steps = 110;
  EXPECT_EQ(schedule(config).cooldown, 20);
  EXPECT_EQ(schedule(config).at(89), config.train.lr);
  EXPECT_LT(schedule(config).at(92), config.train.lr);
}

// Said before anything is allocated on the GPU, and without one, too.
TEST(ComponentOptions, RefuseOptimizersThatAGpuDoesNotHave) {
  Config config;
  config.train.device = Device::cuda();
  config.train.optimizer = OptimizerKind::lion;
  EXPECT_THAT(test::error_of([&] { check_device(config); }),
              AllOf(HasSubstr("--optimizer: expected adamw or muon on a GPU"), HasSubstr("lion")));
  config.train.device = Device::cpu();
  check_device(config);
}

}  // namespace
}  // namespace binade::train
