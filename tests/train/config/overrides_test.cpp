#include "binade/train/config/overrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/amp/recipe/text.h"
#include "binade/train/trainer.h"
#include "io/temporary_folder.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* four_overrides = R"(
[precision]
precision = "fp8"
recipe = "delayed, history = 7, head = true"
[[precision.override]]
module = "blocks.0"
op = "layer_norm"
run = "lower"
[[precision.override]]
module = "blocks.1.mlp"
recipe = 'current, matmuls = ["forward", "dgrad"]'
[[precision.override]]
module = "blocks.1.mlp.down"
recipe = "none"
[[precision.override]]
module = "blocks.1.attention"
recipe = "margin = 1"
)";

std::string override_refusal(const std::string& toml) {
  return test::error_of([&] { resolve_text(toml, "c.toml"); });
}

TEST(Overrides, AreReadAppliedAndSaved) {
  const Config config = resolve_text(four_overrides, "c.toml");
  ASSERT_EQ(config.precision.overrides.size(), 4u);
  EXPECT_EQ(resolve_text(to_toml(config), "saved"), config);

  const amp::Policy policy = policy_of(config.precision.overrides);
  EXPECT_EQ(policy.class_of(Op::layer_norm, "blocks.0.norm1"), CastClass::lower);
  EXPECT_EQ(policy.class_of(Op::layer_norm, "blocks.1.norm1"), CastClass::f32);

  const amp::RecipeState state = recipe_state(config);
  ASSERT_TRUE(state.enabled);
  const amp::Recipe& mlp = state.overrides.at("blocks.1.mlp");
  EXPECT_EQ(mlp, amp::parse_recipe("current, matmuls = [\"forward\", \"dgrad\"]"));
  EXPECT_FALSE(state.overrides.at("blocks.1.mlp.down").matmuls.any());
  // A text without a name changes fields of the run's recipe.
  EXPECT_EQ(state.overrides.at("blocks.1.attention"),
            amp::parse_recipe("delayed, history = 7, head = true, margin = 1"));
}

// The configuration stays whole when the file is gone.
TEST(Overrides, HoldTheRecipeOfAFile) {
  const testing::TemporaryFolder folder;
  const auto file = folder.put("mine.toml", "base = \"block\"\neps = 1e-6\n");
  const Config config = resolve_text(
      "[precision]\nprecision = \"fp8\"\n[[precision.override]]\n"
      "module = \"blocks.0\"\nrecipe = \"" +
          file.string() + ", matmuls = ['forward']\"\n",
      "c.toml");
  EXPECT_THAT(to_toml(config), Not(HasSubstr("mine.toml")));
  EXPECT_EQ(recipe_state(resolve_text(to_toml(config), "saved")).overrides.at("blocks.0"),
            amp::parse_recipe("block, eps = 1e-6, matmuls = [\"forward\"]"));
}

// One that starts from nothing has nothing of the run's recipe.
TEST(Overrides, AFileWithoutABaseIsAWholeRecipe) {
  const testing::TemporaryFolder folder;
  const auto file = folder.put("mine.toml",
                               "matmuls = [\"forward\", \"dgrad\", \"wgrad\"]\n"
                               "[input]\nformat = \"e4m3\"\n[weight]\nformat = \"e4m3\"\n"
                               "[gradient]\nformat = \"e5m2\"\n");
  const Config config = resolve_text(
      "[precision]\nrecipe = 'delayed, hidden = true, skip_first = 1, matmuls = [\"forward\"]'\n"
      "[[precision.override]]\nmodule = \"blocks.0\"\nrecipe = \"" +
          file.string() + "\"\n",
      "c.toml");
  amp::Recipe expected = amp::recipes::current();
  expected.name = "";
  EXPECT_EQ(recipe_state(config).overrides.at("blocks.0"), expected);
}

TEST(Overrides, MistakesAreNamed) {
  const std::string head = "[[precision.override]]\nmodule = \"blocks.0\"\n";
  EXPECT_THAT(override_refusal(head + "op = \"sofmax\"\nrun = \"f32\"\n"), HasSubstr("\"sofmax\""));
  EXPECT_THAT(override_refusal(head + "run = \"f31\"\n"), HasSubstr("\"f31\""));
  EXPECT_THAT(override_refusal(head + "op = \"softmax\"\n"), HasSubstr("softmax runs in"));
  EXPECT_THAT(override_refusal(head), HasSubstr("run or recipe"));
  EXPECT_THAT(override_refusal(head + "recipe = 1\n"), HasSubstr("a text"));
  EXPECT_THAT(override_refusal(head + "fp9 = true\n"), HasSubstr("\"fp9\""));
  EXPECT_THAT(override_refusal(head + "recipe = \"late\"\n"), HasSubstr("\"late\""));
  EXPECT_THAT(override_refusal(head + "recipe = \"row, history = 3\"\n"), HasSubstr("history"));
  EXPECT_THAT(override_refusal("[precision]\noverride = 3\n"),
              HasSubstr("[[precision.override]] tables"));
  Config config = small_config();
  config.precision.overrides = {{.module = "block.0", .run = CastClass::f32}};
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
  all_f32.precision.overrides = {{.module = "", .run = CastClass::f32}};
  EXPECT_EQ(trained(all_f32), trained(small_config("fp32")));
  EXPECT_NE(trained(small_config("bf16")), trained(small_config("fp32")));

  Config no_fp8 = small_config("fp8");
  no_fp8.precision.overrides = {{.module = "blocks", .recipe = no_recipe}};
  EXPECT_EQ(trained(no_fp8), trained(small_config("bf16")));
  EXPECT_NE(trained(small_config("fp8")), trained(small_config("bf16")));
}

}  // namespace
}  // namespace binade::train
