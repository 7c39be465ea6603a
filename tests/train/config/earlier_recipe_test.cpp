#include "binade/train/config/earlier_recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/amp/recipe/text.h"
#include "binade/train/config/component_options.h"
#include "support/values.h"

namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

amp::RecipeState recipes_of(const std::string& toml) {
  return recipe_state(resolve_text(toml, "config.toml"));
}

std::string refusal(const std::string& toml) {
  return test::error_of([&] { resolve_text(toml, "config.toml"); });
}

constexpr const char* every_key = R"(
[precision]
precision = "fp8"
fp8_scaling = "delayed"
fp8_format = "e4m3"
fp8_history = 7
fp8_margin = 2
fp8_skip_first = 1
fp8_skip_last = 2
fp8_head = true
fp8_hidden = true
auto_precision = false
)";

TEST(EarlierRecipe, EveryKeyHasItsField) {
  const amp::RecipeState state = recipes_of(every_key);
  EXPECT_TRUE(state.enabled);
  amp::Recipe expected = amp::recipes::delayed();
  for (const amp::Role role : {amp::Role::input, amp::Role::weight, amp::Role::gradient})
    expected.tensors[role] = amp::TensorRecipe{.source = amp::Delayed{.history = 7, .margin = 2}};
  expected.tensors[amp::Role::hidden] = amp::TensorRecipe{
      .rule = amp::ScaleRule::power_of_two, .source = amp::Delayed{.history = 7, .margin = 2}};
  expected.tensors[amp::Role::head_input] = expected.tensors[amp::Role::head_weight] =
      amp::TensorRecipe{};
  expected.tensors[amp::Role::head_gradient] = amp::TensorRecipe{.source = amp::Constant{}};
  expected.skip_first = 1;
  expected.skip_last = 2;
  EXPECT_EQ(state.recipe, expected);
}

// As earlier versions wrote the defaults of fp8 runs.
TEST(EarlierRecipe, DefaultsAreTheDelayedRecipe) {
  const std::string defaults =
      "[precision]\nprecision = \"fp8\"\nfp8_scaling = \"delayed\"\nfp8_format = \"hybrid\"\n"
      "fp8_history = 16\nfp8_margin = 0\nfp8_skip_first = 0\nfp8_skip_last = 0\n"
      "fp8_head = false\nfp8_hidden = false\n";
  EXPECT_EQ(recipes_of(defaults).recipe, amp::recipes::delayed());
  // A precision other than fp8 had the keys, too.
  EXPECT_FALSE(recipes_of("[precision]\nprecision = \"bf16\"\nfp8_history = 16\n").enabled);
  EXPECT_FALSE(recipes_of("[precision]\nfp8_history = 16\n").enabled);
}

// The other scalings ignored the keys of delayed ones.
TEST(EarlierRecipe, ScalingsAreTheRecipesOfTheirNames) {
  for (const amp::Recipe* recipe : {&amp::recipes::current(), &amp::recipes::row(),
                                    &amp::recipes::block(), &amp::recipes::mx()}) {
    const std::string toml = "[precision]\nprecision = \"fp8\"\nfp8_scaling = \"" + recipe->name +
                             "\"\nfp8_history = 7\nfp8_margin = 2\nfp8_hidden = true\n";
    EXPECT_EQ(recipes_of(toml).recipe, *recipe);
  }
}

// An override had all settings of its run but those that it named.
TEST(EarlierRecipe, OverridesDifferFromTheRunByTheirKeys) {
  const amp::RecipeState state = recipes_of(std::string(every_key) + R"(
[[precision.override]]
module = "blocks.0"
fp8 = false
[[precision.override]]
module = "blocks.1.mlp"
fp8_scaling = "block"
[[precision.override]]
module = "blocks.1.attention"
fp8_wgrad = false
[[precision.override]]
module = "blocks.2"
fp8_scaling = "current"
fp8_forward = false
fp8_dgrad = true
[[precision.override]]
module = "blocks.3"
fp8_scaling = "delayed"
fp8_dgrad = false
)");
  ASSERT_EQ(state.overrides.size(), 5u);
  EXPECT_FALSE(state.overrides.at("blocks.0").matmuls.any());
  const std::string rest = ", format = \"e4m3\", skip_first = 1, skip_last = 2, head = true";
  EXPECT_EQ(state.overrides.at("blocks.1.mlp"), amp::parse_recipe("block" + rest));
  EXPECT_EQ(state.overrides.at("blocks.2"),
            amp::parse_recipe("current" + rest + ", matmuls = [\"dgrad\", \"wgrad\"]"));
  amp::Recipe same = state.recipe;
  same.matmuls = {.forward = true, .dgrad = true, .wgrad = false};
  EXPECT_EQ(state.overrides.at("blocks.1.attention"), same);
  same.matmuls = {.forward = true, .dgrad = false, .wgrad = true};
  EXPECT_EQ(state.overrides.at("blocks.3"), same);
}

TEST(EarlierRecipe, ConfigurationsAreSavedInTheNewForm) {
  const Config config = resolve_text(
      std::string(every_key) + "[[precision.override]]\nmodule = \"blocks.0\"\nfp8 = false\n",
      "config.toml");
  EXPECT_THAT(to_toml(config), ::testing::Not(HasSubstr("fp8_")));
  EXPECT_EQ(resolve_text(to_toml(config), "saved"), config);
}

// The keys of a file give way to its recipe.
TEST(EarlierRecipe, RecipesWin) {
  EXPECT_EQ(recipes_of(std::string(every_key) + "recipe = \"row\"\n").recipe, amp::recipes::row());
}

TEST(EarlierRecipe, WrongValuesAreRefusedNamingTheKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"fp8_scaling", "\"late\""},  {"fp8_scaling", "3"},
      {"fp8_format", "\"e3m4\""},   {"fp8_format", "true"},
      {"fp8_format", "\"a\\\"b\""}, {"fp8_history", "\"x\""},
      {"fp8_history", "0"},         {"fp8_history", "65537"},
      {"fp8_history", "1.5"},       {"fp8_margin", "99"},
      {"fp8_margin", "[1]"},        {"fp8_skip_first", "-1"},
      {"fp8_skip_last", "\"x\""},   {"fp8_head", "1"},
      {"fp8_hidden", "\"true\""},   {"fp8_scaling", "\"delayed, head = true\""}};
  for (const auto& [key, value] : cases) {
    const std::string toml = std::string("[precision]\n") + key + " = " + value + "\n";
    EXPECT_THAT(refusal(toml), HasSubstr(key)) << toml;
  }
  const std::string entry = "[[precision.override]]\nmodule = \"blocks.0\"\n";
  EXPECT_THAT(refusal(entry + "fp8_scaling = \"late\"\n"), HasSubstr("late"));
  EXPECT_THAT(refusal(entry + "fp8 = 1\n"), HasSubstr("fp8"));
  EXPECT_THAT(refusal(entry + "fp8_wgrad = \"x\"\n"), HasSubstr("fp8_wgrad"));
}

TEST(EarlierRecipe, OptionsAreRefusedNamingTheirField) {
  const std::pair<const char*, const char*> cases[] = {
      {"fp8-scaling", "--recipe delayed|current|row|block|mx"},
      {"fp8-format", "--recipe 'delayed, format = \"e4m3\"'"},
      {"fp8-history", "history = "},
      {"fp8-margin", "margin = "},
      {"fp8-skip-first", "skip_first = "},
      {"fp8-skip-last", "skip_last = "},
      {"fp8-head", "head = true"},
      {"fp8-hidden", "hidden = true"}};
  for (const auto& [option, field] : cases) {
    EXPECT_THAT(test::error_of([&option = option] {
                  resolve({{}, {{option, "4"}}});
                }),
                AllOf(HasSubstr(std::string("--") + option), HasSubstr(field)));
    EXPECT_THAT(recipe_option_for(std::string("--") + option + "=4").value(), HasSubstr(field));
  }
  EXPECT_FALSE(recipe_option_for("--fp8"));
  EXPECT_FALSE(recipe_option_for("--steps"));
}

}  // namespace
}  // namespace binade::train
