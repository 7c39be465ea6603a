#include "binade/train/run/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "binade/amp/recipe/text.h"
#include "support/error_of.h"

namespace binade::train {
namespace {

TEST(Orders, AreReadAsTheyWereWritten) {
  for (int value = 0; value <= static_cast<int>(Order::end); ++value) {
    for (const char* argument : {"", "12 observed", "a folder/with  spaces "}) {
      const Command given{static_cast<Order>(value), argument};
      const Command read = parse_command(to_text(given));
      EXPECT_EQ(read.order, given.order) << to_text(given);
      EXPECT_EQ(read.argument, argument) << to_text(given);
    }
  }
  EXPECT_EQ(to_text({Order::step, "12"}), "step 12");
  EXPECT_EQ(to_text({Order::end}), "end");
}

TEST(Orders, RefuseOtherTexts) {
  for (const char* text : {"", "steps", "step12", " step 1", "End"})
    EXPECT_THAT(test::error_of([&] { parse_command(text); }), ::testing::HasSubstr("order"))
        << text;
}

// --- recipes ---

RecipeOrder order_of(const std::string& recipe) {
  RecipeOrder order{"blocks.1.mlp.up", amp::parse_recipe(recipe), {}};
  double amax = 1e-30;
  for (const amp::Role role : amp::layer_roles) order.amaxes[role] = amax /= 3;
  return order;
}

TEST(RecipeOrders, AreReadAsTheyWereWritten) {
  const char* const recipes[] = {
      "delayed",
      "delayed, history = 5, margin = -2, newest = true",
      "delayed, head = true, hidden = true, skip_first = 1, skip_last = 2",
      "delayed, format = \"e4m3\", fast_accumulation = false, hidden = true",
      // Hidden values with another history than the operands.
      "delayed, gradient.history = 9, hidden.rule = \"power_of_two\", hidden.source = \"delayed\", "
      "hidden.history = 3",
      "current, eps = 1e-12, exclude = [\"blocks.0.mlp\", \"blocks.1\"]",
      "row, matmuls = [\"dgrad\", \"wgrad\"], format = \"e5m2\"",
      "row, matmuls = []",
      "block, gradient.format = \"e4m3\", head = true, weight.rule = \"largest\"",
      "mx, weight.group = [0, 0], weight.scale = \"f32\", weight.rule = \"largest\"",
      "name = \"mine\", matmuls = [\"forward\"], input.format = \"e5m2\", weight.format = \"e4m3\"",
  };
  for (const char* recipe : recipes) {
    const RecipeOrder given = order_of(recipe), read = parse_recipe_order(to_text(given));
    EXPECT_EQ(read.module, given.module) << recipe;
    EXPECT_EQ(read.recipe, given.recipe) << to_text(given);
    EXPECT_EQ(read.amaxes, given.amaxes) << recipe;
  }
}

// A recipe without gradients, whose backward matmuls are not quantized.
TEST(RecipeOrders, HaveTheRolesThatARecipeHas) {
  for (const amp::Recipe* builtin : amp::recipes::all()) {
    RecipeOrder given{"head", *builtin, {}};
    given.recipe.matmuls = {true, false, false};
    given.recipe.tensors[amp::Role::gradient] = {};
    EXPECT_EQ(parse_recipe_order(to_text(given)).recipe, given.recipe) << builtin->name;
  }
}

// An order is a command's argument, and amaxes that are not finite are unknown.
TEST(RecipeOrders, TravelAsCommands) {
  RecipeOrder given = order_of("row, head = true");
  given.amaxes[amp::Role::gradient] = std::numeric_limits<double>::infinity();
  given.amaxes[amp::Role::input] = std::numeric_limits<double>::quiet_NaN();
  const Command command = parse_command(to_text(Command{Order::recipe, to_text(given)}));
  EXPECT_EQ(command.order, Order::recipe);
  const RecipeOrder read = parse_recipe_order(command.argument);
  EXPECT_EQ(read.recipe, given.recipe);
  EXPECT_EQ(read.amaxes[amp::Role::gradient], 0);
  EXPECT_EQ(read.amaxes[amp::Role::input], 0);
  EXPECT_EQ(read.amaxes[amp::Role::weight], given.amaxes[amp::Role::weight]);
}

TEST(RecipeOrders, RefuseOtherTexts) {
  for (const char* text : {"", "blocks.0", "blocks.0\n1 2 3 4", "blocks.0\n1 2 3\nrow",
                           "blocks.0\n1 2 x 4\nrow", "blocks.0\n1 2 3 4\nrows"})
    EXPECT_FALSE(test::error_of([&] { parse_recipe_order(text); }).empty()) << text;
}

}  // namespace
}  // namespace binade::train
