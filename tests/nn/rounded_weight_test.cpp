#include "binade/nn/rounded_weight.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/autograd/grad_mode.h"
#include "binade/nn/linear.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/error_of.h"
#include "support/tensors.h"

namespace binade::nn {
namespace {

const formats::WeightFormat& format_named(const std::string& name) {
  return *formats::find_weight_format(name);
}

TEST(RoundedWeight, IsRoundedOnceForEachChange) {
  const Tensor weight = test::noise({3, 32}, 1), other = test::noise({2, 2}, 2);
  RoundedWeight rounded(format_named("q4_0"), {});
  int calls = 0;
  const auto values = [&] {
    return to_vector(rounded.values(std::array{weight, other}, [&] {
      ++calls;
      return weight * 2;
    }));
  };
  const auto first = values();
  EXPECT_EQ(first, to_vector(round_weight(weight * 2, format_named("q4_0"))));
  EXPECT_EQ(values(), first);
  EXPECT_EQ(calls, 1);
  fill_(slice(other, 0, 1, 2), 3);  // the second source, by a view
  values();
  EXPECT_EQ(calls, 2);
  copy_(weight, test::noise({3, 32}, 3));
  EXPECT_NE(values(), first);
  EXPECT_EQ(calls, 3);
}

TEST(LinearWeightFormat, ComputesWithTheRoundedWeightInEveryType) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Linear layer({.in = 64, .out = 6});
    const Tensor x = test::noise({5, 64}, 4);
    layer.set_weight_format(&format_named("nvfp4"));
    EXPECT_EQ(layer.weight_format()->name, "nvfp4");
    const amp::Autocast cast(dtype == DType::f32 ? DType::bf16 : dtype,
                             {.enabled = dtype != DType::f32});
    const Tensor y = layer(x);
    const Tensor values = round_weight(layer.weight, format_named("nvfp4"));
    EXPECT_EQ(to_vector(y), to_vector(linear(x, values, layer.bias)));
    EXPECT_NE(to_vector(y), to_vector(linear(x, layer.weight, layer.bias)));
    layer.set_weight_format(nullptr);
    EXPECT_EQ(layer.weight_format(), nullptr);
    EXPECT_EQ(to_vector(layer(x)), to_vector(linear(x, layer.weight, layer.bias)));
  }
}

// The gradient of a weight is not rounded to the matmul's type on its way.
TEST(LinearWeightFormat, TheGradientOfAWeightStaysF32) {
  Linear layer({.in = 32, .out = 3, .bias = false});
  layer.set_weight_format(&format_named("q8_0"));
  const amp::Autocast cast(DType::bf16);
  sum(layer(test::noise({7, 32}, 5))).backward();
  sum(layer(test::noise({7, 32}, 6))).backward();
  const Tensor gradient = layer.weight.grad();
  EXPECT_EQ(gradient.dtype(), DType::f32);
  EXPECT_NE(to_vector(gradient), to_vector(binade::cast(gradient, DType::bf16)));
}

TEST(LinearWeightFormat, AdaptersArePartOfWhatIsRounded) {
  Linear layer({.in = 64, .out = 10, .bias = false});
  layer.weight.set_requires_grad(false);
  // Two adapters of other scales and ranks; row 6 has none.
  LoraAdapter& first =
      layer.add_adapter("q", {.in = 64, .begin = 0, .rows = 6, .rank = 2, .scale = 3});
  LoraAdapter& second =
      layer.add_adapter("v", {.in = 64, .begin = 7, .rows = 3, .rank = 4, .scale = 0.5});
  {
    const NoGrad no_grad;
    copy_(first.b.detach(), test::noise({6, 2}, 7));
    copy_(second.b.detach(), test::noise({3, 4}, 8));
  }
  layer.set_weight_format(&format_named("q4_0"));
  const Tensor x = test::noise_leaf({5, 64}, 9), dy = test::noise({5, 10}, 10);
  const Tensor y = layer(x);
  y.backward(dy);

  const NoGrad no_grad;
  const Tensor merged = clone(layer.weight);
  copy_(slice(merged, 0, 0, 6), slice(merged, 0, 0, 6) + matmul(first.b, first.a) * 3);
  copy_(slice(merged, 0, 7, 10), slice(merged, 0, 7, 10) + matmul(second.b, second.a) * 0.5);
  const Tensor values = round_weight(merged, format_named("q4_0"));
  EXPECT_EQ(to_vector(y), to_vector(linear(x, values)));
  EXPECT_EQ(to_vector(x.grad()), to_vector(matmul(dy, values)));
  // As if the weight's gradient had passed the sum W + scale b a.
  const Tensor dw = matmul(transpose(dy, 0, 1), x);
  const auto expect_near = [](const Tensor& found, const Tensor& expected) {
    const auto a = to_vector(found), b = to_vector(expected);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-5 * (1 + std::abs(b[i])));
  };
  const Tensor dw1 = slice(dw, 0, 0, 6), dw2 = slice(dw, 0, 7, 10);
  expect_near(first.b.grad(), matmul(dw1, transpose(first.a, 0, 1)) * 3);
  expect_near(first.a.grad(), matmul(transpose(first.b, 0, 1), dw1) * 3);
  expect_near(second.b.grad(), matmul(dw2, transpose(second.a, 0, 1)) * 0.5);
  expect_near(second.a.grad(), matmul(transpose(second.b, 0, 1), dw2) * 0.5);
}

TEST(LinearWeightFormat, RefusesOtherRowsAndRecipes) {
  Linear layer({.in = 48, .out = 4});
  const std::string error = test::error_of([&] { layer.set_weight_format(&format_named("q4_0")); });
  EXPECT_NE(error.find("q4_0"), std::string::npos) << error;
  EXPECT_NE(error.find("multiple of 32"), std::string::npos) << error;
  layer.set_weight_format(&format_named("nvfp4"));
  const amp::QuantizedAutocast recipe(amp::recipes::current());
  const std::string both = test::error_of([&] { layer(test::noise({2, 48}, 11)); });
  EXPECT_NE(both.find("recipe current"), std::string::npos) << both;
  EXPECT_NE(both.find("nvfp4"), std::string::npos) << both;
}

}  // namespace
}  // namespace binade::nn
