#include "binade/amp/recipe/layer_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/binade.h"

// Scales and histories of delayed recipes, which losses say little about.
namespace binade {
namespace {

using amp::parse_recipe;
using amp::Recipe;
using ::testing::ElementsAre;
using ::testing::SizeIs;

// A layer whose amaxes are known: inputs of 2, weights of 0.5, gradients of 4.
class KnownAmaxes : public ::testing::Test {
 protected:
  KnownAmaxes() {
    const NoGrad no_grad;
    fill_(layer.weight, 0.5);
  }

  void forward_and_backward(const Recipe& recipe, double x = 2) {
    const amp::QuantizedAutocast fp8(recipe);
    sum(layer(full({2, 8}, x)) * 4.0).backward();
  }
  void step(const Recipe& recipe, double x = 2) {
    sgd.zero_grad();
    forward_and_backward(recipe, x);
    sgd.step();
  }
  std::vector<double> state(const std::string& name) {
    return to_vector(layer.state_dict().at("scales." + name));
  }

  nn::Linear layer{{.in = 8, .out = 8, .bias = false}};
  optim::SGD sgd{layer.parameters(), {.lr = 1e-4}};
};

TEST_F(KnownAmaxes, GiveScalesByTheFormatOfEachStream) {
  step(parse_recipe("delayed, history = 4"));
  EXPECT_THAT(state("input.scale"), ElementsAre(448 / 2.0));
  EXPECT_THAT(state("weight.scale"), ElementsAre(448 / 0.5));
  EXPECT_THAT(state("gradient.scale"), ElementsAre(57344 / 4.0));  // e5m2
  for (const std::string stream : {"input.", "weight.", "gradient."})
    EXPECT_FLOAT_EQ(static_cast<float>(state(stream + "inverse")[0]),
                    static_cast<float>(1 / state(stream + "scale")[0]))
        << stream;
}

TEST_F(KnownAmaxes, GiveScalesOfOneFormatWhereTheRecipeSaysSo) {
  step(parse_recipe(R"(delayed, format = "e4m3", history = 4)"));
  EXPECT_THAT(state("gradient.scale"), ElementsAre(448 / 4.0));
  EXPECT_THAT(state("input.scale"), ElementsAre(448 / 2.0));
}

TEST_F(KnownAmaxes, LeaveAMargin) {
  step(parse_recipe("delayed, history = 4, margin = 3"));
  EXPECT_THAT(state("input.scale"), ElementsAre(448 / 2.0 / 8));
  EXPECT_THAT(state("gradient.scale"), ElementsAre(57344 / 4.0 / 8));
}

TEST_F(KnownAmaxes, AreRememberedForTheLengthOfTheHistory) {
  const Recipe recipe = parse_recipe("delayed, history = 3");
  for (const double x : {7.0, 2.0, 1.0}) step(recipe, x);
  EXPECT_THAT(state("input.history"), ElementsAre(1, 2, 7));
  EXPECT_THAT(state("input.scale"), ElementsAre(448 / 7.0));
  step(recipe, 4);
  EXPECT_THAT(state("input.history"), ElementsAre(4, 1, 2));
  EXPECT_THAT(state("input.scale"), ElementsAre(448 / 4.0));
}

// Another length starts a new history.
TEST_F(KnownAmaxes, StartAnewWithAnotherLengthOfHistory) {
  for (int i = 0; i < 3; ++i) step(parse_recipe("delayed, history = 8"));
  EXPECT_THAT(state("input.history"), SizeIs(8));
  forward_and_backward(parse_recipe("delayed, history = 4"));
  for (const std::string stream : {"input.", "weight.", "gradient."}) {
    EXPECT_THAT(state(stream + "history"), ElementsAre(0, 0, 0, 0)) << stream;
    EXPECT_THAT(state(stream + "scale"), ElementsAre(1)) << stream;
  }
  sgd.step();
  EXPECT_THAT(state("input.history"), ElementsAre(2, 0, 0, 0));
  step(parse_recipe("delayed, history = 16"));
  EXPECT_THAT(state("input.history"), SizeIs(16));
  EXPECT_EQ(state("input.history")[0], 2);
  EXPECT_EQ(state("input.history")[1], 0);
}

TEST_F(KnownAmaxes, AreNotRecordedWithoutGradients) {
  const Recipe recipe = parse_recipe("delayed, history = 4");
  forward_and_backward(recipe);
  {
    const NoGrad no_grad;
    const amp::QuantizedAutocast fp8(recipe);
    layer(full({2, 8}, 100));
  }
  EXPECT_THAT(state("input.pending"), ElementsAre(2));
  sgd.step();
  EXPECT_THAT(state("input.history"), ElementsAre(2, 0, 0, 0));
}

// A step's first amax raises what is pending directly, later ones are recorded: a non-finite one
// is dropped in both cases, and the finite ones of the step stay.
TEST_F(KnownAmaxes, AreDroppedIfTheyAreNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Recipe recipe = parse_recipe("delayed, history = 4");
  forward_and_backward(recipe, infinity);
  sgd.zero_grad();
  const NoGrad no_grad;
  fill_(layer.weight, 0.5);  // ends the step
  EXPECT_THAT(state("input.history"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(state("input.scale"), ElementsAre(1));
  EXPECT_THAT(state("input.dropped"), ElementsAre(1));
  for (const auto& [first, second] : {std::pair(infinity, 3.0), std::pair(3.0, infinity)}) {
    SCOPED_TRACE(first);
    {
      const autograd::EnableGrad grad;
      for (const double x : {first, second}) {
        const amp::QuantizedAutocast fp8(recipe);
        layer(full({2, 8}, x));
      }
    }
    EXPECT_THAT(state("input.pending"), ElementsAre(3));
    fill_(layer.weight, 0.5);
    EXPECT_EQ(state("input.history")[0], 3);
    EXPECT_THAT(state("input.scale"), ElementsAre(static_cast<float>(448 / 3.0)));
  }
  EXPECT_THAT(state("input.dropped"), ElementsAre(3));
  {
    const autograd::EnableGrad grad;
    const amp::QuantizedAutocast fp8(recipe);
    layer(full({2, 8}, infinity));
  }
  EXPECT_THAT(state("input.pending"), ElementsAre(0));  // of a saved state
  EXPECT_THAT(state("input.dropped"), ElementsAre(4));
}

// A layer that has run takes a saved state as a new one does: nothing of its past rolls in.
TEST_F(KnownAmaxes, AreReplacedByThoseOfASavedState) {
  const Recipe recipe = parse_recipe("delayed, history = 2");
  for (const double x : {8.0, 3.0}) step(recipe, x);
  const StateDict saved = layer.state_dict();
  nn::Linear used({.in = 8, .out = 8, .bias = false}), fresh({.in = 8, .out = 8, .bias = false});
  {
    const amp::QuantizedAutocast fp8(recipe);
    sum(used(full({2, 8}, 77))).backward();
  }
  for (nn::Linear* other : {&used, &fresh}) {
    other->load_state_dict(saved);
    const amp::QuantizedAutocast fp8(recipe);
    sum(layer(full({2, 8}, 1.0))).backward();
    other->parameters()[0].zero_grad();
    sum((*other)(full({2, 8}, 1.0))).backward();
    const StateDict found = other->state_dict();
    for (const auto& [name, tensor] : saved) {
      if (!name.starts_with("scales.") || name.ends_with("pending")) continue;
      EXPECT_EQ(to_vector(found.at(name)), to_vector(tensor)) << name << (other == &used);
    }
  }
}

// A layer's output and gradient under `recipe`, where it ran under `before`, if any, with the same
// weight.
std::pair<Tensor, Tensor> after_recipe(const Recipe* before, const Recipe& recipe) {
  nn::Linear layer({.in = 16, .out = 16, .bias = false});
  {
    const NoGrad no_grad;
    copy_(layer.weight, randn({16, 16}, {1, 1}));
  }
  const auto run = [&](const Recipe& one) {
    Tensor x = randn({4, 16}, {1, 2});
    x.set_requires_grad();
    const amp::QuantizedAutocast fp8(one);
    const Tensor y = layer(x);
    y.backward(randn({4, 16}, {1, 3}));
    return std::pair{y, x.grad()};
  };
  if (before != nullptr) run(*before);
  return run(recipe);
}

TEST_F(KnownAmaxes, OnlyTheNewestCountsIfTheRecipeSaysSo) {
  const Recipe recipe = parse_recipe("delayed, history = 4, newest = true");
  step(recipe, 8);
  EXPECT_THAT(state("input.scale"), ElementsAre(448 / 8.0));
  step(recipe, 2);
  EXPECT_THAT(state("input.scale"), ElementsAre(448 / 2.0));
}

TEST(QuantizedWeight, IsQuantizedAgainAfterAWriteThroughItsAddress) {
  nn::Linear layer({.in = 16, .out = 16, .bias = false});
  const Tensor x = ones({16, 16});
  const amp::QuantizedAutocast fp8(amp::recipes::current());
  layer(x);
  std::fill_n(layer.weight.mutable_data<float>(), layer.weight.numel(), 2.0f);
  // Codes and sums are exact; the scale of each operand is rounded to f32.
  for (const double y : to_vector(layer(x))) EXPECT_NEAR(y, 32, 4 * 0x1p-23 * 32);
}

TEST(QuantizedWeight, IsQuantizedAgainForAnotherRecipe) {
  const auto powers_of_two = [](Recipe recipe) {
    for (const amp::Role role : {amp::Role::input, amp::Role::weight, amp::Role::gradient})
      recipe.tensors[role]->rule = amp::ScaleRule::power_of_two;
    return recipe;
  };
  const Recipe recipes[] = {amp::recipes::current(),
                            powers_of_two(amp::recipes::current()),
                            parse_recipe("current, eps = 10"),
                            amp::recipes::row(),
                            powers_of_two(amp::recipes::row()),
                            amp::recipes::block(),
                            amp::recipes::mx(),
                            parse_recipe(R"(mx, matmuls = ["forward", "wgrad"])"),
                            parse_recipe("delayed, history = 4")};
  for (const Recipe& recipe : recipes) {
    const auto [y, dx] = after_recipe(nullptr, recipe);
    for (const Recipe& before : recipes) {
      const auto [other_y, other_dx] = after_recipe(&before, recipe);
      const std::string what = to_text(before) + " before " + to_text(recipe);
      EXPECT_EQ(to_vector(other_y), to_vector(y)) << what;
      EXPECT_EQ(to_vector(other_dx), to_vector(dx)) << what;
    }
  }
}

// Names of earlier versions: result became hidden.
TEST(BufferNames, AreReadByThoseOfEarlierVersionsToo) {
  using amp::buffer_name, amp::current_buffer_name, amp::Role;
  EXPECT_EQ(buffer_name(Role::input, "history"), "scales.input.history");
  EXPECT_EQ(buffer_name(Role::hidden, "scale"), "scales.hidden.scale");
  const std::pair<const char*, const char*> names[] = {
      {"fp8.input.history", "scales.input.history"},
      {"blocks.0.mlp.up.fp8.weight.scale", "blocks.0.mlp.up.scales.weight.scale"},
      {"up.fp8.gradient.inverse", "up.scales.gradient.inverse"},
      {"up.fp8.result.pending", "up.scales.hidden.pending"}};
  for (const auto& [saved, expected] : names) EXPECT_EQ(current_buffer_name(saved), expected);
  // The third last is a parameter of a module that a program calls fp8.
  for (const char* other : {"blocks.0.mlp.up.weight", "scales.input.history", "myfp8.input.history",
                            "fp8.input.weight", "fp8.weight", "fp8.hidden.scale"})
    EXPECT_EQ(current_buffer_name(other), other);
}

// Whatever the scales of the other roles are.
TEST(LayerScales, HaveAStreamForEachDelayedRole) {
  nn::Linear layer({.in = 8, .out = 8, .bias = false});
  const amp::QuantizedAutocast fp8(
      parse_recipe(R"(row, input.source = "delayed", input.history = 5, input.group = [0, 0])"));
  sum(layer(ones({2, 8}))).backward();
  const StateDict state = layer.state_dict();
  EXPECT_EQ(state.at("scales.input.history").numel(), 5);
  for (const char* other : {"weight", "gradient", "hidden"})
    EXPECT_FALSE(state.contains(std::string("scales.") + other + ".history")) << other;
}

// --- whole models, whose layers quantize in fused kernels ---

template <class Model>
Tensor loss_of(Model& model, uint64_t stream) {
  const Tensor data = randint(0, 64, {2, 17}, {5, stream});
  return model.loss(slice(data, 1, 0, 16), slice(data, 1, 1, 17));
}

double largest(const Tensor& x) {
  const std::vector<double> values = to_vector(x);
  return *std::max_element(values.begin(), values.end());
}

template <class Model>
void expect_scales_of_amaxes(bool recompute) {
  Model model({.layers = 2,
               .width = 32,
               .heads = 2,
               .vocab = 64,
               .context = 16,
               .activations = nn::Activations::recompute(recompute),
               .seed = 3});
  optim::AdamW adam(model.parameters(), {.lr = 1e-3});
  for (uint64_t i = 0; i < 3; ++i) {
    adam.zero_grad();
    const amp::Autocast autocast(DType::bf16);
    const amp::QuantizedAutocast fp8(parse_recipe("delayed, history = 4"));
    loss_of(model, i).backward();
    adam.step();
  }
  const StateDict state = model.state_dict();
  int streams = 0;
  for (const auto& [name, tensor] : state) {
    const size_t at = name.find(".history");
    if (at == std::string::npos) continue;
    const std::string stream = name.substr(0, at);
    const double top = stream.ends_with("gradient") ? 57344 : 448;
    const std::vector<double> history = to_vector(tensor);
    ASSERT_GT(history[0], 0) << name;
    ASSERT_GT(history[2], 0) << name;
    EXPECT_EQ(history[3], 0) << name;  // three steps, one amax each
    const double expected = top / largest(tensor);
    EXPECT_NEAR(state.at(stream + ".scale").item(), expected, 2 * epsilon(DType::f32) * expected)
        << name;
    ++streams;
  }
  EXPECT_GE(streams, 3 * 2 * 4);
}

TEST(ModelScales, AreThoseOfTheirAmaxes) {
  for (const bool recompute : {false, true}) {
    expect_scales_of_amaxes<nn::GPT>(recompute);
    expect_scales_of_amaxes<nn::Llama>(recompute);
  }
}

template <class Model>
void expect_no_trace_without_gradients() {
  Model model({.layers = 2, .width = 32, .heads = 2, .vocab = 64, .context = 16, .seed = 3});
  const amp::Autocast autocast(DType::bf16);
  const amp::QuantizedAutocast fp8(parse_recipe("delayed, history = 4"));
  loss_of(model, 0).backward();
  std::map<std::string, std::vector<double>> before;
  for (const auto& [name, tensor] : model.named_buffers()) before[name] = to_vector(tensor);
  {
    const NoGrad no_grad;
    for (uint64_t i = 1; i < 5; ++i) loss_of(model, i);
  }
  int compared = 0;
  for (const auto& [name, tensor] : model.named_buffers()) {
    EXPECT_EQ(to_vector(tensor), before.at(name)) << name;
    compared += name.ends_with("input.pending") ? 1 : 0;
  }
  EXPECT_GE(compared, 8);
  // The same batches with gradients do leave one.
  for (uint64_t i = 1; i < 5; ++i) loss_of(model, i).backward();
  int changed = 0;
  for (const auto& [name, tensor] : model.named_buffers())
    changed += to_vector(tensor) != before.at(name) ? 1 : 0;
  EXPECT_GE(changed, 4);
}

TEST(ModelScales, KeepNoTraceOfForwardsWithoutGradients) {
  expect_no_trace_without_gradients<nn::GPT>();
  expect_no_trace_without_gradients<nn::Llama>();
}

}  // namespace
}  // namespace binade
