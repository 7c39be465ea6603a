#include <gtest/gtest.h>

#include "binade/amp/recipe/layer_scales.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/autograd/grad_mode.h"
#include "binade/nn/linear.h"
#include "binade/nn/transformer.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/optim/sgd.h"
#include "support/tensors.h"

// State dicts of linear layers that ran by a recipe.
namespace binade::nn {
namespace {

// An MLP whose first layer stores its result, after some steps.
StateDict trained_mlp(const amp::Recipe& recipe) {
  MLP mlp({.width = 16, .hidden = 32, .gated = true, .bias = false});
  optim::SGD sgd(mlp.parameters(), {.lr = 1e-3});
  for (uint64_t step = 0; step < 3; ++step) {
    sgd.zero_grad();
    const amp::QuantizedAutocast quantized(recipe);
    sum(square(mlp(test::noise({4, 16}, step) * (1.0 + static_cast<double>(step))))).backward();
    sgd.step();
  }
  StateDict copies;  // as a file would hold them
  for (const auto& [name, tensor] : mlp.state_dict()) copies[name] = clone(tensor);
  return copies;
}

// The same with the names of earlier versions: fp8.input.history, fp8.result.history.
StateDict with_earlier_names(const StateDict& state) {
  const std::pair<std::string, std::string> names[] = {{"scales.input.", "fp8.input."},
                                                       {"scales.weight.", "fp8.weight."},
                                                       {"scales.gradient.", "fp8.gradient."},
                                                       {"scales.hidden.", "fp8.result."}};
  StateDict result;
  for (const auto& [name, tensor] : state) {
    std::string earlier = name;
    for (const auto& [now, before] : names) {
      if (const size_t at = name.find(now); at != std::string::npos)
        earlier = name.substr(0, at) + before + name.substr(at + now.size());
    }
    result[earlier] = tensor;
  }
  return result;
}

TEST(LinearState, IsReadByTheNamesOfEarlierVersions) {
  const amp::Recipe recipe = amp::parse_recipe("delayed, history = 4, hidden = true");
  const StateDict saved = trained_mlp(recipe), earlier = with_earlier_names(saved);
  int renamed = 0;
  for (const auto& [name, tensor] : earlier) {
    EXPECT_EQ(name.find("scales."), std::string::npos) << name;
    renamed += name.find("fp8.") != std::string::npos ? 1 : 0;
  }
  // Of both layers input, weight and gradient, and the first one's result; five tensors each.
  ASSERT_EQ(renamed, (3 + 3 + 1) * 5);
  ASSERT_TRUE(earlier.contains("up.fp8.result.scale"));
  MLP loaded({.width = 16, .hidden = 32, .gated = true, .bias = false}),
      reference({.width = 16, .hidden = 32, .gated = true, .bias = false});
  loaded.load_state_dict(earlier);
  reference.load_state_dict(saved);
  const StateDict found = loaded.state_dict();
  ASSERT_EQ(found.size(), saved.size());
  for (const auto& [name, tensor] : saved) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(test::same_bits(found.at(name), tensor)) << name;
  }
  EXPECT_NE(found.at("up.scales.hidden.scale").item(), 1);
  EXPECT_GT(found.at("down.scales.input.history").data<float>()[2], 0);
  // And goes on with them.
  const amp::QuantizedAutocast quantized(recipe);
  const NoGrad no_grad;
  const Tensor x = test::noise({4, 16}, 9);
  EXPECT_TRUE(test::same_bits(loaded(x), reference(x)));
}

// A layer takes the streams that a state has, whatever it had before.
TEST(LinearState, OfAMixedRecipeHasTheScalesOfItsDelayedRoles) {
  const amp::Recipe mixed = amp::parse_recipe(
      R"(row, input.group = [0, 0], input.source = "delayed", input.history = 3)");
  const StateDict saved = trained_mlp(mixed);
  EXPECT_TRUE(saved.contains("up.scales.input.history"));
  EXPECT_FALSE(saved.contains("up.scales.weight.history"));
  EXPECT_FALSE(saved.contains("up.scales.gradient.history"));
  MLP loaded({.width = 16, .hidden = 32, .gated = true, .bias = false});
  {
    const amp::QuantizedAutocast quantized(amp::recipes::delayed());
    sum(loaded(test::noise({4, 16}, 1))).backward();
  }
  loaded.load_state_dict(saved);
  const StateDict found = loaded.state_dict();
  ASSERT_EQ(found.size(), saved.size());
  for (const auto& [name, tensor] : saved)
    EXPECT_TRUE(test::same_bits(found.at(name), tensor)) << name;
}

}  // namespace
}  // namespace binade::nn
