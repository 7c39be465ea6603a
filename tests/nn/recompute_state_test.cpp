#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/autograd/module_path.h"
#include "binade/nn/linear.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/recompute.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

// A backward may run where the guards of its forward have ended: what recompute runs again sees
// their state all the same.
namespace binade {
namespace {

enum class Backward { inside, outside, elsewhere };  // elsewhere: under other guards

struct Recomputed {
  Tensor y, dx, dw;
  StateDict state;
};

// A linear layer under the given states, recomputed or not.
Recomputed run_layer(const amp::AutocastState& autocast, const amp::RecipeState& recipes,
                     bool recompute, Backward where) {
  nn::Linear layer({.in = 8, .out = 8});
  test::write(layer.weight, test::read(test::noise({8, 8}, 3)));
  test::write(layer.bias, test::read(test::noise({8}, 4)));
  const Tensor x = test::noise_leaf({4, 8}, 1), dy = test::noise({4, 8}, 2);
  Tensor y, loss;
  {
    const amp::Autocast cast(autocast);
    const amp::QuantizedAutocast quantized(recipes);
    const autograd::ModuleScope path("model.layer");
    const auto forward = [&](std::span<const Tensor> in) { return layer(in[0]); };
    y = recompute ? checkpoint(forward, {x}) : layer(x);
    loss = sum(y * dy);
    if (where == Backward::inside) loss.backward();
  }
  if (where == Backward::outside) loss.backward();
  if (where == Backward::elsewhere) {
    const amp::Autocast cast(DType::f16);
    const amp::QuantizedAutocast quantized(amp::recipes::row());
    const autograd::ModuleScope path("other");
    loss.backward();
  }
  return {y, x.grad(), layer.weight.grad(), layer.state_dict()};
}

void expect_same_everywhere(const amp::AutocastState& autocast, const amp::RecipeState& recipes) {
  const Recomputed plain = run_layer(autocast, recipes, false, Backward::inside);
  for (const Backward where : {Backward::inside, Backward::outside, Backward::elsewhere}) {
    SCOPED_TRACE(static_cast<int>(where));
    const Recomputed found = run_layer(autocast, recipes, true, where);
    EXPECT_TRUE(test::same_bits(found.y, plain.y));
    EXPECT_TRUE(test::same_bits(found.dx, plain.dx));
    EXPECT_TRUE(test::same_bits(found.dw, plain.dw));
    ASSERT_EQ(found.state.size(), plain.state.size());
    for (const auto& [name, tensor] : plain.state)
      EXPECT_TRUE(test::same_bits(found.state.at(name), tensor)) << name;
  }
}

TEST(RecomputeState, IsThatOfTheForwardUnderARecipe) {
  for (const char* text : {"delayed, history = 4", "current", "mx"}) {
    SCOPED_TRACE(text);
    const amp::Recipe recipe = amp::parse_recipe(text);
    expect_same_everywhere({}, {true, recipe, {}});
    expect_same_everywhere({true, DType::bf16, nullptr}, {true, recipe, {}});
  }
}

TEST(RecomputeState, IsThatOfTheForwardUnderAutocast) {
  expect_same_everywhere({true, DType::bf16, nullptr}, {});
  expect_same_everywhere({true, DType::f16, nullptr}, {});
  expect_same_everywhere({}, {});
}

// By module path: the layer is not quantized where the recipe leaves its path out.
TEST(RecomputeState, KnowsThePathOfTheForward) {
  amp::Recipe recipe = amp::recipes::current();
  recipe.exclude = {"model.layer"};
  expect_same_everywhere({}, {true, recipe, {}});
  recipe.exclude = {"other"};
  expect_same_everywhere({}, {true, recipe, {}});
}

}  // namespace
}  // namespace binade
