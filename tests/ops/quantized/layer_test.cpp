#include "binade/ops/quantized/layer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "binade/amp/autocast.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/quantized/linear.h"
#include "support/tensors.h"

namespace binade {
namespace {

using amp::Recipe;
using amp::Fp8Scaling;

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

Matmuls fp8_matmuls(const Recipe& recipe, bool requantizes = false) {
  return matmuls_of([&](const Tensor& x, const Tensor& weight) {
    return quantized_linear(x, {.weight = weight,
                          .recipe = &recipe,
                          .state = std::make_shared<amp::LayerScales>(),
                          .requantizes = requantizes});
  });
}

// Whatever the recipe; those that cannot quantize again keep their data.
TEST(QuantizedLayer, HasTheSameBitsIfItQuantizesAgain) {
  for (const Recipe& recipe :
       {Recipe{}, Recipe{.dgrad = false}, Recipe{.scaling = Fp8Scaling::current},
        Recipe{.scaling = Fp8Scaling::row}}) {
    const Matmuls kept = fp8_matmuls(recipe), again = fp8_matmuls(recipe, true);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(test::same_bits(again[i], kept[i])) << i;
  }
}

// A result that SwiGLU reads: e4m3 under the scale of past amaxes, then values again. Gradients are
// those of a layer without it.
TEST(QuantizedLayer, StoresAHiddenResultInE4m3) {
  const Recipe recipe{.history = 2, .hidden = true};
  const auto state = std::make_shared<amp::LayerScales>(),
             plain_state = std::make_shared<amp::LayerScales>();
  const Tensor x = test::noise_leaf({24, 40}, 1, DType::bf16),
               weight = test::noise_leaf({56, 40}, 2);
  const amp::Autocast autocast(DType::bf16);
  const auto run = [&](bool is_hidden, const std::shared_ptr<amp::LayerScales>& of) {
    return quantized_linear(x,
                      {.weight = weight, .recipe = &recipe, .state = of, .is_hidden = is_hidden});
  };
  for (int step = 0; step < 2; ++step) {
    const Tensor plain = run(false, plain_state);
    const Tensor y = run(true, state);
    const auto scale = static_cast<float>(state->result.scale.item());
    const std::vector<double> values = test::read(y), exact = test::read(plain);
    double amax = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      // The values before are rounded to bf16 here, to f32 there: one binade of e4m3 has 8 numbers.
      const double magnitude = std::max(std::abs(exact[i]) * scale, 0x1p-6);
      EXPECT_NEAR(values[i] * scale, exact[i] * scale, magnitude * (1.0 / 16 + 1.0 / 128));
      amax = std::max(amax, std::abs(exact[i]));
    }
    EXPECT_NEAR(state->result.pending.item(), amax, amax / 256);
    // Afterwards the scale makes the most of e4m3, with as many distinct values as it has at most.
    EXPECT_EQ(scale, step == 0 ? 1 : std::exp2(std::floor(std::log2(448 / amax))));
    EXPECT_LT(std::set<double>(values.begin(), values.end()).size(), 256u);
    weight.bump_version();
  }
  const auto gradients = [&](bool is_hidden) {
    const Tensor y = run(is_hidden, std::make_shared<amp::LayerScales>());
    x.zero_grad();
    weight.zero_grad();
    y.backward(test::noise(y.shape(), 3, y.dtype()));
    return std::array{x.grad(), weight.grad()};
  };
  const auto stored = gradients(true), plain = gradients(false);
  for (size_t i = 0; i < stored.size(); ++i) EXPECT_TRUE(test::same_bits(stored[i], plain[i])) << i;
}

// Recipes without delayed scales, or with a matmul in another type, have values.
TEST(QuantizedLayer, StoresNoOtherResults) {
  Recipe recipe{.hidden = true};
  QuantizedLayer layer{.recipe = &recipe, .is_hidden = true};
  EXPECT_TRUE(ops::stores_result(layer));
  layer.activation = Activation::relu;
  EXPECT_FALSE(ops::stores_result(layer));
  layer.activation = Activation::none;
  recipe.wgrad = false;
  EXPECT_FALSE(ops::stores_result(layer));
  recipe = {.scaling = Fp8Scaling::current, .hidden = true};
  EXPECT_FALSE(ops::stores_result(layer));
  recipe = {};
  EXPECT_FALSE(ops::stores_result(layer));
}

// The output of attention is kept by its own backward anyway. Other inputs are not.
TEST(QuantizedLayer, QuantizesAttentionOutputsAgain) {
  const Tensor qkv = test::noise_leaf({1, 8, 48}, 1, DType::bf16);
  const Tensor y = packed_attention(qkv, 2, 2);
  const Recipe recipe;
  QuantizedLayer layer{.weight = test::noise_leaf({8, 16}, 2, DType::bf16),
                 .recipe = &recipe,
                 .state = std::make_shared<amp::LayerScales>(),
                 .requantizes = true};
  layer.state->begin(recipe, layer.weight);
  const ops::LayerForward forward{
      .dtype = DType::bf16, .recording = true, .input_needs_grad = true, .records_amax = true};
  const auto again = [&](const Tensor& x) {
    const Tensor values = x.detach().strided({8, 16}, {16, 1}, 0);
    return static_cast<bool>(ops::quantized_input(layer, forward, x, values).again);
  };
  EXPECT_TRUE(again(y));
  EXPECT_FALSE(again(relu(y)));
  layer.requantizes = false;
  EXPECT_FALSE(again(y));
}

// A matmul in FP8 has the bits of the complete recipe, one that is left out those of linear().
TEST(QuantizedLayer, RunsEachMatmulInFp8OrInTheAutocastType) {
  const Matmuls plain =
      matmuls_of([](const Tensor& x, const Tensor& weight) { return linear(x, weight); });
  for (const Fp8Scaling scaling : {Fp8Scaling::delayed, Fp8Scaling::current, Fp8Scaling::row,
                                   Fp8Scaling::block, Fp8Scaling::mx}) {
    const Matmuls complete = fp8_matmuls({.scaling = scaling});
    for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(test::same_bits(complete[i], plain[i]));
    for (unsigned mask = 0; mask < 8; ++mask) {
      SCOPED_TRACE(std::string(amp::name(scaling)) + " " + std::to_string(mask));
      const bool in_fp8[3] = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
      const Matmuls found = fp8_matmuls(
          {.scaling = scaling, .forward = in_fp8[0], .dgrad = in_fp8[1], .wgrad = in_fp8[2]});
      for (size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(test::same_bits(found[i], in_fp8[i] ? complete[i] : plain[i])) << i;
    }
  }
}

// Bias and activation are applied as linear() does, without autocast too.
TEST(QuantizedLayer, MatmulsLeftOutOfTheRecipeReadUnquantizedValues) {
  const Tensor x = randn({5, 24}, {1, 0}), weight = randn({7, 24}, {2, 0}),
               bias = randn({7}, {3, 0});
  Recipe recipe{.scaling = Fp8Scaling::current};
  const auto run = [&] {
    return test::read(quantized_linear(x, {.weight = weight,
                                     .bias = bias,
                                     .activation = Activation::relu,
                                     .recipe = &recipe,
                                     .state = std::make_shared<amp::LayerScales>()}));
  };
  const auto plain = test::read(linear(x, weight, bias, Activation::relu));
  EXPECT_NE(run(), plain);
  recipe.forward = false;
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
