#include "binade/ops/quantized/layer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/text.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/quantized/linear.h"
#include "support/tensors.h"

namespace binade {
namespace {

using amp::parse_recipe;
using amp::Recipe;
using amp::Role;

// y, dx and dweight.
using Matmuls = std::array<Tensor, 3>;

template <class Run>
Matmuls matmuls_of(Run run) {
  const Tensor x = test::noise_leaf({2, 24, 40}, 1, DType::bf16),
               weight = test::noise_leaf({56, 40}, 2);
  const amp::Autocast autocast(DType::bf16);
  const Tensor y = run(x, weight);
  y.backward(test::noise(y.shape(), 3, y.dtype()));
  return {y, x.grad(), weight.grad()};
}

Matmuls quantized_matmuls(const Recipe& recipe, bool recomputes_results = false) {
  random::begin_step(1, 1);  // of recipes that draw
  return matmuls_of([&](const Tensor& x, const Tensor& weight) {
    return quantized_linear(x, with_facts({.weight = weight,
                                           .recipe = &recipe,
                                           .scales = std::make_shared<amp::LayerScales>()},
                                          {.recomputes_results = recomputes_results}));
  });
}

// Whatever the recipe; those that cannot quantize again keep their data.
TEST(QuantizedLayer, HasTheSameBitsIfItQuantizesAgain) {
  for (const Recipe& recipe :
       {amp::recipes::delayed(), parse_recipe(R"(delayed, matmuls = ["forward", "wgrad"])"),
        amp::recipes::current(), amp::recipes::row()}) {
    const Matmuls kept = quantized_matmuls(recipe), again = quantized_matmuls(recipe, true);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(test::same_bits(again[i], kept[i])) << i;
  }
}

// A result that SwiGLU reads: e4m3 under the scale of past amaxes, then values again. Gradients are
// those of a layer without it.
TEST(QuantizedLayer, StoresAHiddenResultInE4m3) {
  const Recipe recipe = parse_recipe("delayed, history = 2, hidden = true");
  const auto scales = std::make_shared<amp::LayerScales>(),
             plain_scales = std::make_shared<amp::LayerScales>();
  const Tensor x = test::noise_leaf({24, 40}, 1, DType::bf16),
               weight = test::noise_leaf({56, 40}, 2);
  const amp::Autocast autocast(DType::bf16);
  const auto run = [&](bool feeds_swiglu, const std::shared_ptr<amp::LayerScales>& of) {
    return quantized_linear(x, with_facts({.weight = weight, .recipe = &recipe, .scales = of},
                                          {.feeds_swiglu = feeds_swiglu}));
  };
  for (int step = 0; step < 2; ++step) {
    const Tensor plain = run(false, plain_scales);
    const Tensor y = run(true, scales);
    const auto scale = static_cast<float>((*scales)[Role::hidden].scale.item());
    const std::vector<double> values = test::read(y), exact = test::read(plain);
    double amax = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      // The values before are rounded to bf16 here, to f32 there: one binade of e4m3 has 8 numbers.
      const double magnitude = std::max(std::abs(exact[i]) * scale, 0x1p-6);
      EXPECT_NEAR(values[i] * scale, exact[i] * scale, magnitude * (1.0 / 16 + 1.0 / 128));
      amax = std::max(amax, std::abs(exact[i]));
    }
    EXPECT_NEAR((*scales)[Role::hidden].pending.item(), amax, amax / 256);
    // Afterwards the scale makes the most of e4m3, with as many distinct values as it has at most.
    EXPECT_EQ(scale, step == 0 ? 1 : std::exp2(std::floor(std::log2(448 / amax))));
    EXPECT_LT(std::set<double>(values.begin(), values.end()).size(), 256u);
    weight.bump_version();
  }
  const auto gradients = [&](bool feeds_swiglu) {
    const Tensor y = run(feeds_swiglu, std::make_shared<amp::LayerScales>());
    x.zero_grad();
    weight.zero_grad();
    y.backward(test::noise(y.shape(), 3, y.dtype()));
    return std::array{x.grad(), weight.grad()};
  };
  const auto stored = gradients(true), plain = gradients(false);
  for (size_t i = 0; i < stored.size(); ++i) EXPECT_TRUE(test::same_bits(stored[i], plain[i])) << i;
}

// Recipes without a format for it, or with a matmul in another type, have values.
TEST(QuantizedLayer, StoresNoOtherResults) {
  const auto stores = [](const Recipe& recipe, Activation activation = Activation::none,
                         bool feeds_swiglu = true) {
    const QuantizedLayer layer{.weight = Tensor::empty({8, 4}, DType::f32),
                               .activation = activation,
                               .recipe = &recipe,
                               .scales = {}};
    return with_facts(layer, {.feeds_swiglu = feeds_swiglu}).facts.stores_result;
  };
  Recipe recipe = parse_recipe("delayed, hidden = true");
  EXPECT_TRUE(stores(recipe));
  EXPECT_FALSE(stores(recipe, Activation::relu));
  EXPECT_FALSE(stores(recipe, Activation::none, false));
  recipe.matmuls.wgrad = false;
  EXPECT_FALSE(stores(recipe));
  for (const Recipe* builtin : amp::recipes::all()) EXPECT_FALSE(stores(*builtin)) << builtin->name;
  EXPECT_THROW(parse_recipe("current, hidden = true"), Error);
}

// The output of attention is kept by its own backward anyway. Other inputs are not.
TEST(QuantizedLayer, QuantizesAttentionOutputsAgain) {
  const Tensor qkv = test::noise_leaf({1, 8, 48}, 1, DType::bf16);
  const Tensor y = packed_attention(qkv, 2, 2);
  QuantizedLayer layer = with_facts({.weight = test::noise_leaf({8, 16}, 2, DType::bf16),
                                     .recipe = &amp::recipes::delayed(),
                                     .scales = std::make_shared<amp::LayerScales>()},
                                    {.recomputes_results = true});
  ops::begin(layer);
  const ops::LayerForward forward{
      .dtype = DType::bf16, .recording = true, .input_needs_grad = true, .records_amax = true};
  const auto again = [&](const Tensor& x) {
    const Tensor values = x.detach().strided({8, 16}, {16, 1}, 0);
    return static_cast<bool>(ops::quantized_input(layer, forward, x, values).again);
  };
  EXPECT_TRUE(again(y));
  EXPECT_FALSE(again(relu(y)));
  layer = with_facts(layer, {.recomputes_results = false});
  EXPECT_FALSE(again(y));
}

// A quantized matmul has the bits of the complete recipe, one that is left out those of linear().
TEST(QuantizedLayer, RunsEachMatmulQuantizedOrInTheAutocastType) {
  const Matmuls plain =
      matmuls_of([](const Tensor& x, const Tensor& weight) { return linear(x, weight); });
  for (const Recipe* builtin : amp::recipes::all()) {
    const Matmuls complete = quantized_matmuls(*builtin);
    for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(test::same_bits(complete[i], plain[i]));
    for (unsigned mask = 0; mask < 8; ++mask) {
      SCOPED_TRACE(builtin->name + " " + std::to_string(mask));
      const bool quantized[3] = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
      Recipe recipe = *builtin;
      recipe.matmuls = {.forward = quantized[0], .dgrad = quantized[1], .wgrad = quantized[2]};
      const Matmuls found = quantized_matmuls(recipe);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(test::same_bits(found[i], quantized[i] ? complete[i] : plain[i])) << i;
    }
  }
}

// Bias and activation are applied as linear() does, without autocast too.
TEST(QuantizedLayer, MatmulsLeftOutOfTheRecipeReadUnquantizedValues) {
  const Tensor x = randn({5, 24}, {1, 0}), weight = randn({7, 24}, {2, 0}),
               bias = randn({7}, {3, 0});
  Recipe recipe = amp::recipes::current();
  const auto run = [&] {
    return test::read(
        quantized_linear(x, with_facts({.weight = weight,
                                        .bias = bias,
                                        .activation = Activation::relu,
                                        .recipe = &recipe,
                                        .scales = std::make_shared<amp::LayerScales>()})));
  };
  const auto plain = test::read(linear(x, weight, bias, Activation::relu));
  EXPECT_NE(run(), plain);
  recipe.matmuls.forward = false;
  EXPECT_EQ(run(), plain);
}

TEST(QuantizedLayer, ResultsHaveTheAutocastType) {
  EXPECT_EQ(ops::linear_dtype(DType::f32), DType::f32);
  EXPECT_EQ(ops::linear_dtype(DType::bf16), DType::bf16);
  const amp::Autocast autocast(DType::f16);
  EXPECT_EQ(ops::linear_dtype(DType::f32), DType::f16);
}

TEST(QuantizedLayer, AnInputThatNeedsNoGradientHasNoTarget) {
  const auto target_of = [](const Tensor& x) {
    return ops::input_target(autograd::GradSlot(x.autograd_meta()), {6, 4});
  };
  EXPECT_FALSE(target_of(test::noise({2, 3, 4}, 1)).buffer.defined());
  const Tensor x = test::noise_leaf({2, 3, 4}, 1);
  const autograd::GradSlot::Target first = target_of(x), second = target_of(x);
  EXPECT_EQ(first.buffer.shape(), (Shape{6, 4}));
  EXPECT_FALSE(first.accumulate);
  EXPECT_TRUE(second.accumulate);
  EXPECT_EQ(second.buffer.storage(), x.grad().storage());
}

}  // namespace
}  // namespace binade
