#include "binade/train/config/overrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/train/trainer.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;

constexpr const char* two_overrides = R"(
[precision]
precision = "fp8"
[[precision.override]]
module = "blocks.0"
op = "layer_norm"
run = "lower"
[[precision.override]]
module = "blocks.1.mlp"
fp8_scaling = "current"
fp8_wgrad = false
[[precision.override]]
module = "blocks.1.mlp.down"
fp8 = false
)";

std::string refusal(const std::string& toml) {
  return test::error_of([&] { resolve_text(toml, "c.toml"); });
}

TEST(Overrides, AreReadAppliedAndSaved) {
  const Config config = resolve_text(two_overrides, "c.toml");
  ASSERT_EQ(config.overrides.size(), 3u);
  EXPECT_EQ(resolve_text(to_toml(config), "saved"), config);

  const amp::Policy policy = policy_of(config.overrides);
  EXPECT_EQ(policy.class_of(Op::layer_norm, "blocks.0.norm1"), CastClass::lower);
  EXPECT_EQ(policy.class_of(Op::layer_norm, "blocks.1.norm1"), CastClass::f32);

  const amp::RecipeState state = recipe_state(config);
  ASSERT_TRUE(state.enabled);
  const amp::Recipe& mlp = state.overrides.at("blocks.1.mlp");
  EXPECT_EQ(mlp.scaling, amp::Fp8Scaling::current);
  EXPECT_TRUE(mlp.forward && mlp.dgrad);
  EXPECT_FALSE(mlp.wgrad);
  const amp::Recipe& down = state.overrides.at("blocks.1.mlp.down");
  EXPECT_FALSE(down.forward || down.dgrad || down.wgrad);
}

TEST(Overrides, MistakesAreNamed) {
  const std::string head = "[[precision.override]]\nmodule = \"blocks.0\"\n";
  EXPECT_THAT(refusal(head + "op = \"sofmax\"\nrun = \"f32\"\n"), HasSubstr("\"sofmax\""));
  EXPECT_THAT(refusal(head + "run = \"f31\"\n"), HasSubstr("\"f31\""));
  EXPECT_THAT(refusal(head + "op = \"softmax\"\n"), HasSubstr("softmax runs in"));
  EXPECT_THAT(refusal(head), HasSubstr("none of them"));
  EXPECT_THAT(refusal(head + "fp8 = 1\n"), HasSubstr("true or false"));
  EXPECT_THAT(refusal(head + "fp9 = true\n"), HasSubstr("\"fp9\""));
  EXPECT_THAT(refusal(head + "fp8_scaling = \"late\"\n"), HasSubstr("'late'"));
  EXPECT_THAT(refusal("[precision]\noverride = 3\n"), HasSubstr("[[precision.override]] tables"));
  Config config = small_config();
  config.overrides = {{.module = "block.0", .run = CastClass::f32}};
  EXPECT_THAT(test::error_of([&] { Trainer trainer(config); }), HasSubstr("\"block.0\""));
}

// Weights after two steps.
std::vector<double> trained(const Config& config) {
  const data::Tokens tokens = data::Tokens::of_bytes(small_text());
  Trainer trainer(config);
  trainer.step(tokens);
  trainer.step(tokens);
  return test::read(trainer.model().parameters()[2]);
}

TEST(Overrides, OfTheWholeModelMakeTheOtherPrecision) {
  Config all_f32 = small_config("bf16");
  all_f32.overrides = {{.module = "", .run = CastClass::f32}};
  EXPECT_EQ(trained(all_f32), trained(small_config("fp32")));
  EXPECT_NE(trained(small_config("bf16")), trained(small_config("fp32")));

  Config no_fp8 = small_config("fp8");
  no_fp8.overrides = {{.module = "blocks", .fp8 = false}};
  EXPECT_EQ(trained(no_fp8), trained(small_config("bf16")));
  EXPECT_NE(trained(small_config("fp8")), trained(small_config("bf16")));
}

}  // namespace
}  // namespace binade::train
