#include "binade/train/config/component_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ComponentOptions, AnFp8RecipeHasEverySettingOfItsRun) {
  Config config = small_config("fp8");
  config.fp8_scaling = amp::Fp8Scaling::current;
  config.fp8_format = amp::Fp8Format::e4m3;
  config.fp8_history = 7;
  config.fp8_margin = 3;
  config.fp8_skip_first = 1;
  config.fp8_skip_last = 2;
  const amp::Fp8State state = fp8_state(config);
  EXPECT_TRUE(state.enabled);
  EXPECT_EQ(state.recipe.scaling, amp::Fp8Scaling::current);
  EXPECT_EQ(state.recipe.format, amp::Fp8Format::e4m3);
  EXPECT_EQ(state.recipe.history, 7);
  EXPECT_EQ(state.recipe.margin, 3);
  EXPECT_EQ(state.recipe.skip_first, 1);
  EXPECT_EQ(state.recipe.skip_last, 2);
  EXPECT_FALSE(fp8_state(small_config("bf16")).enabled);
}

// A cooldown takes the last fifth of the steps after the warmup.
TEST(ComponentOptions, ACooldownIsAFifthOfTheStepsAfterTheWarmup) {
  Config config = small_config();
  config.schedule = optim::ScheduleKind::cooldown;
  config.warmup = 10;
  config.steps = 110;
  EXPECT_EQ(schedule(config).cooldown, 20);
  EXPECT_EQ(schedule(config).at(89), config.lr);
  EXPECT_LT(schedule(config).at(92), config.lr);
}

// Said before anything is allocated on the GPU, and without one, too.
TEST(ComponentOptions, RefuseOptimizersThatAGpuDoesNotHave) {
  Config config;
  config.device = Device::cuda();
  config.optimizer = OptimizerKind::lion;
  EXPECT_THAT(test::error_of([&] { check_device(config); }),
              AllOf(HasSubstr("--optimizer"), HasSubstr("lion with f32 moments")));
  config.optimizer = OptimizerKind::adamw;
  config.moments = DType::u8;
  EXPECT_THAT(test::error_of([&] { check_device(config); }),
              AllOf(HasSubstr("--moments"), HasSubstr("adamw with 8bit moments")));
  config.device = Device::cpu();
  check_device(config);
}

}  // namespace
}  // namespace binade::train
