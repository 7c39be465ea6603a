#include "binade/ops/fp8_layer.h"

#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/ops/create.h"
#include "binade/ops/fp8_linear.h"
#include "support/values.h"

namespace binade {
namespace {

TEST(Fp8Layer, ResultsHaveTheAutocastType) {
  EXPECT_EQ(ops::linear_dtype(DType::f32), DType::f32);
  EXPECT_EQ(ops::linear_dtype(DType::bf16), DType::bf16);
  const amp::Autocast cast(DType::f16);
  EXPECT_EQ(ops::linear_dtype(DType::f32), DType::f16);
}

// The forward of a recipe that only quantizes backward matmuls is the plain linear, bit for bit.
TEST(Fp8Layer, MatmulsLeftOutOfTheRecipeReadUnquantizedValues) {
  const Tensor x = randn({5, 24}, {1, 0}), weight = randn({7, 24}, {2, 0}),
               bias = randn({7}, {3, 0});
  amp::Fp8Recipe recipe{.scaling = amp::Fp8Scaling::current};
  const auto run = [&] {
    return test::read(fp8_linear(x, {.weight = weight,
                                     .bias = bias,
                                     .activation = Activation::relu,
                                     .recipe = &recipe,
                                     .state = std::make_shared<amp::Fp8LinearState>()}));
  };
  const auto plain = test::read(linear(x, weight, bias, Activation::relu));
  EXPECT_NE(run(), plain);
  recipe.forward = false;
  EXPECT_EQ(run(), plain);
}

}  // namespace
}  // namespace binade
