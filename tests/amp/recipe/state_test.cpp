#include "binade/amp/recipe/state.h"

#include <gtest/gtest.h>

#include "binade/amp/recipe/text.h"
#include "binade/binade.h"

namespace binade {
namespace {

using amp::Recipe;
using amp::Role;

// The state of a small model after some steps under a recipe.
std::vector<double> train(const Recipe& recipe, bool recompute, int64_t micro_batches,
                          int steps = 3) {
  nn::GPT model({.layers = 2,
                 .width = 32,
                 .heads = 2,
                 .vocab = 64,
                 .context = 16,
                 .activations = nn::Activations::recompute(recompute),
                 .seed = 3});
  optim::AdamW adam(model.parameters(), {.lr = 1e-3});
  for (int step = 0; step < steps; ++step) {
    adam.zero_grad();
    random::begin_step(3, static_cast<uint64_t>(step));
    for (int64_t i = 0; i < micro_batches; ++i) {
      const Tensor data = randint(0, 64, {2, 17}, {5, static_cast<uint64_t>(step * 10 + i)});
      const amp::Autocast autocast(DType::bf16);
      const amp::QuantizedAutocast fp8(recipe);
      mul(model.loss(slice(data, 1, 0, 16), slice(data, 1, 1, 17)),
          1.0 / static_cast<double>(micro_batches))
          .backward();
    }
    adam.step();
  }
  std::vector<double> values;
  for (const auto& [name, tensor] : model.state_dict()) {
    const auto more = to_vector(tensor);
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

// A built-in recipe with a short history if it has one.
Recipe short_history(Recipe recipe) {
  for (const Role role : {Role::input, Role::weight, Role::gradient}) {
    if (recipe[role].is_delayed()) recipe.tensors[role]->source = amp::Delayed{.history = 4};
  }
  return recipe;
}

TEST(RecipeTraining, RecomputeGivesTheSameBitsInEveryRecipe) {
  for (const Recipe* builtin : amp::recipes::all()) {
    SCOPED_TRACE(builtin->name);
    const Recipe recipe = short_history(*builtin);
    EXPECT_EQ(train(recipe, false, 2), train(recipe, true, 2));
  }
}

TEST(RecipeTraining, EveryRecipeIsCloseToBf16AndNotEqualToIt) {
  const auto loss = [](const Recipe* recipe) {
    nn::Llama model({.layers = 2,
                     .width = 64,
                     .heads = 4,
                     .kv_heads = 2,
                     .hidden = 128,
                     .vocab = 64,
                     .context = 32,
                     .seed = 1});
    const Tensor data = randint(0, 64, {4, 33}, {9, 9});
    const amp::Autocast autocast(DType::bf16);
    const amp::QuantizedAutocast fp8(amp::RecipeState{
        .enabled = recipe != nullptr, .recipe = recipe == nullptr ? Recipe{} : *recipe});
    return model.loss(slice(data, 1, 0, 32), slice(data, 1, 1, 33)).item();
  };
  const double plain = loss(nullptr);
  for (const Recipe* builtin : amp::recipes::all()) {
    const bool has_8_bits = (*builtin)[Role::gradient].format.bits() == 8;
    for (const formats::Format& format : {formats::spec::e5m2, formats::spec::e4m3}) {
      Recipe recipe = *builtin;
      if (has_8_bits) recipe.tensors[Role::gradient]->format = format;
      const double value = loss(&recipe);
      EXPECT_NE(value, plain) << recipe.name;
      EXPECT_NEAR(value, plain, 0.02 * plain) << recipe.name;
    }
  }
}

// Half of 9 steps: 0 to 4 are quantized. Without the number of steps all are.
TEST(RecipeTraining, ARecipeEndsAtItsFractionOfTheRun) {
  const Recipe recipe = amp::parse_recipe("nvfp4, until = 0.5");
  for (const int64_t steps : {9, 0}) {
    const amp::QuantizedAutocast quantized(
        amp::RecipeState{.enabled = true, .recipe = recipe, .steps = steps});
    for (uint64_t step = 0; step < 9; ++step) {
      random::begin_step(1, step);
      EXPECT_EQ(amp::current_recipe() != nullptr, steps == 0 || step < 5) << step;
    }
  }
}

// One delayed scale for inputs, blocks for weights, rows for gradients.
TEST(RecipeTraining, AMixedRecipeTrains) {
  const Recipe recipe = amp::parse_recipe(
      R"(row, input.group = [0, 0], input.source = "delayed", input.history = 4, )"
      R"(weight.group = [128, 128])");
  EXPECT_EQ(train(recipe, false, 2), train(recipe, true, 2));
  nn::Linear layer({.in = 16, .out = 16});
  optim::SGD sgd(layer.parameters(), {.lr = 0.5});
  const Tensor x = randn({64, 16}, {4, 1}), wanted = matmul(x, randn({16, 16}, {4, 2}));
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    sgd.zero_grad();
    const amp::QuantizedAutocast quantized(recipe);
    const Tensor loss = mean(square(layer(x) - wanted));
    loss.backward();
    sgd.step();
    losses.push_back(loss.item());
  }
  EXPECT_LT(losses.back(), 0.5 * losses.front());
}

TEST(RecipeTraining, HistoriesRollOncePerStepWhateverTheMicroBatches) {
  nn::Linear layer({.in = 8, .out = 8});
  optim::SGD sgd(layer.parameters(), {.lr = 0.1});
  const Recipe recipe = amp::parse_recipe("delayed, history = 8");
  const auto history = [&] { return to_vector(layer.state_dict().at("scales.input.history")); };
  const auto forward = [&](double size) {
    const amp::QuantizedAutocast fp8(recipe);
    sum(layer(full({2, 8}, size))).backward();
  };
  forward(1);
  forward(3);
  forward(2);
  EXPECT_EQ(history()[0], 0);  // nothing rolls before the weight changes
  sgd.step();
  EXPECT_EQ(history()[0], 3);  // the largest of the step
  EXPECT_EQ(history()[1], 0);
  sgd.zero_grad();
  forward(5);
  sgd.step({.gradient_factor = {}, .skip = ones({1})});
  EXPECT_EQ(history()[0], 3);  // a skipped step updates no scale
}

TEST(RecipeTraining, SavedHistoriesContinueBitForBit) {
  const Recipe recipe = amp::parse_recipe("delayed, history = 4");
  const auto make = [] {
    return std::make_unique<nn::Linear>(nn::LinearConfig{.in = 16, .out = 16});
  };
  const auto step = [&](nn::Linear& layer, optim::Optimizer& sgd, uint64_t t) {
    sgd.zero_grad();
    const amp::QuantizedAutocast fp8(recipe);
    sum(square(layer(randn({4, 16}, {2, t})))).backward();
    sgd.step();
  };
  auto one = make();
  optim::SGD sgd_one(one->parameters(), {.lr = 1e-3});
  for (uint64_t t = 0; t < 3; ++t) step(*one, sgd_one, t);
  auto two = make();
  two->load_state_dict(one->state_dict());
  optim::SGD sgd_two(two->parameters(), {.lr = 1e-3});
  for (uint64_t t = 3; t < 6; ++t) {
    step(*one, sgd_one, t);
    step(*two, sgd_two, t);
  }
  const StateDict a = one->state_dict(), b = two->state_dict();
  for (const auto& [name, tensor] : a) EXPECT_EQ(to_vector(tensor), to_vector(b.at(name))) << name;
}

TEST(RecipeTraining, PathsProductsAndLayersCanBeLeftOut) {
  nn::Linear layer({.in = 8, .out = 8});
  const Tensor x = randn({4, 8}, {1, 1});
  const auto run = [&](const amp::RecipeState& state) {
    const amp::QuantizedAutocast fp8(state);
    const autograd::ModuleScope scope("block.3.mlp");
    return to_vector(layer(x));
  };
  const auto plain = run({});
  const Recipe& recipe = amp::recipes::current();
  EXPECT_NE(run({true, recipe, {}}), plain);
  Recipe excluded = recipe;
  excluded.exclude = {"block.3"};
  EXPECT_EQ(run({true, excluded, {}}), plain);
  excluded.exclude = {"block.33", "block.3.ml"};  // paths, not prefixes of text
  EXPECT_NE(run({true, excluded, {}}), plain);
  Recipe backward_only = recipe;
  backward_only.matmuls.forward = false;
  EXPECT_EQ(run({true, backward_only, {}}), plain);
  EXPECT_EQ(run({true, recipe, {{"block.3", backward_only}}}), plain);
}

// The layer's recipe at a path, by name; "" if it has none.
std::string recipe_at(const std::string& path) {
  const autograd::ModuleScope scope(path);
  const Recipe* recipe = amp::current_recipe();
  return recipe == nullptr ? "" : recipe->name;
}

TEST(RecipeState, TheLongestMatchingPathWins) {
  EXPECT_EQ(recipe_at("blocks.1.mlp"), "");
  Recipe none = amp::recipes::row();
  none.matmuls = {false, false, false};
  const amp::QuantizedAutocast fp8({.enabled = true,
                                    .recipe = amp::recipes::delayed(),
                                    .overrides = {{"blocks.1", amp::recipes::row()},
                                                  {"blocks.1.mlp.up", amp::recipes::mx()},
                                                  {"blocks.2", none}}});
  EXPECT_EQ(recipe_at("blocks.0.mlp"), "delayed");
  EXPECT_EQ(recipe_at("blocks.1.mlp"), "row");
  EXPECT_EQ(recipe_at("blocks.1.mlp.up"), "mx");
  EXPECT_EQ(recipe_at("blocks.1.mlp.up2"), "row");
  EXPECT_EQ(recipe_at("blocks.10"), "delayed");
  EXPECT_EQ(recipe_at("blocks.2.mlp"), "");
}

TEST(RecipeState, GuardsNestAndEnd) {
  {
    const amp::QuantizedAutocast outer(amp::recipes::row());
    EXPECT_EQ(recipe_at("a"), "row");
    {
      const amp::QuantizedAutocast inner(amp::recipes::block());
      EXPECT_EQ(recipe_at("a"), "block");
      const amp::QuantizedAutocast off(amp::RecipeState{});
      EXPECT_EQ(recipe_at("a"), "");
    }
    EXPECT_EQ(recipe_at("a"), "row");
  }
  EXPECT_EQ(recipe_at("a"), "");
}

TEST(RecipeState, HeadsHaveARecipeIfItHasTheirRoles) {
  const auto has_head = [](const Recipe& recipe) {
    const amp::QuantizedAutocast fp8(recipe);
    return amp::current_head_recipe() != nullptr;
  };
  EXPECT_FALSE(has_head(amp::recipes::delayed()));
  EXPECT_TRUE(has_head(amp::parse_recipe("delayed, head = true")));
  EXPECT_FALSE(
      has_head(amp::parse_recipe(R"(delayed, head = true, matmuls = ["forward", "dgrad"])")));
  EXPECT_EQ(amp::current_head_recipe(), nullptr);
}

// A state without a recipe needs none, so an empty one is not checked.
TEST(RecipeState, RecipesAreCheckedByTheGuard) {
  Recipe bad = amp::recipes::delayed();
  bad.tensors[Role::weight]->group = {1, 0};
  EXPECT_THROW(amp::QuantizedAutocast{bad}, Error);
  EXPECT_THROW((amp::QuantizedAutocast{amp::RecipeState{
                   .enabled = true, .recipe = amp::recipes::row(), .overrides = {{"a", bad}}}}),
               Error);
  EXPECT_NO_THROW(amp::QuantizedAutocast{amp::RecipeState{}});
}

}  // namespace
}  // namespace binade
