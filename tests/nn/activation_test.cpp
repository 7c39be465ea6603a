#include "binade/nn/activation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>

#include "binade/nn/pool.h"
#include "binade/nn/sequential.h"
#include "binade/ops/conv/pool.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade::nn {
namespace {

using ::testing::ElementsAre;

TEST(ActivationLayers, AreTheirFunctions) {
  const Tensor x = randn({3, 4, 5}, {1, 1});
  const auto expect = [&](Layer&& layer, const Tensor& expected) {
    EXPECT_EQ(to_vector(layer(x)), to_vector(expected)) << layer.description();
    EXPECT_EQ(layer(x).shape(), expected.shape());
  };
  expect(Identity(), x);
  expect(ReLU(), relu(x));
  expect(LeakyReLU(0.2), leaky_relu(x, 0.2));
  expect(GELU(), gelu(x));
  expect(GELU(Gelu::tanh), gelu(x, Gelu::tanh));
  expect(SiLU(), silu(x));
  expect(ELU(), elu(x));
  expect(ELU(0.5), elu(x, 0.5));
  expect(Mish(), mish(x));
  expect(Hardswish(), hardswish(x));
  expect(Hardsigmoid(), hardsigmoid(x));
  expect(Sigmoid(), sigmoid(x));
  expect(Tanh(), tanh(x));
  expect(Softplus(), softplus(x));
  expect(Softmax(1), softmax(x, 1));
  expect(LogSoftmax(-1), log_softmax(x, -1));
  expect(Flatten(), reshape(x, {3, 20}));
  expect(Flatten(0, 1), reshape(x, {12, 5}));
  expect(MaxPool(2), max_pool(x, {.kernel = {2}}));
  expect(AvgPool({.kernel = {3}, .stride = {1}, .padding = {1}}),
         avg_pool(x, {.kernel = {3}, .stride = {1}, .padding = {1}}));
  expect(GlobalAvgPool(), global_avg_pool(x));
  expect(AdaptiveAvgPool(2), adaptive_avg_pool(x, {2}));
  expect(AdaptiveMaxPool(3), adaptive_max_pool(x, {3}));
}

// 5 elements in 2 windows: 0 to 2 and 2 to 4.
TEST(AdaptivePools, HaveTheSizesAskedFor) {
  const Tensor x = reshape(arange(2 * 5 * 4, DType::f32), {1, 2, 5, 4});
  EXPECT_EQ(AdaptiveMaxPool({2, 4})(x).shape(), (Shape{1, 2, 2, 4}));
  EXPECT_THAT(to_vector(AdaptiveMaxPool({2, 1})(x)), ElementsAre(11, 19, 31, 39));
  EXPECT_THAT(to_vector(AdaptiveAvgPool({2, 1})(x)), ElementsAre(5.5, 13.5, 25.5, 33.5));
  // 3 windows: 0 to 1, 1 to 3 and 3 to 4.
  EXPECT_THAT(to_vector(AdaptiveMaxPool({3, 1})(x)), ElementsAre(7, 15, 19, 27, 35, 39));
  EXPECT_THAT(to_vector(AdaptiveAvgPool({3, 1})(x)), ElementsAre(3.5, 9.5, 15.5, 23.5, 29.5, 35.5));
  EXPECT_EQ(AdaptiveAvgPool({7, 7}).description(), "AdaptiveAvgPool(7 x 7)");
  EXPECT_TRUE(AdaptiveAvgPool(1).state_dict().empty());
  EXPECT_THROW(AdaptiveAvgPool({1, 1, 1})(x), Error);
}

TEST(ActivationLayers, PReluLearnsItsSlopes) {
  PReLU prelu_layer(4);
  EXPECT_EQ(prelu_layer.named_parameters()[0].first, "weight");
  const Tensor x = randn({3, 4, 5}, {1, 1});
  EXPECT_EQ(to_vector(prelu_layer(x)), to_vector(prelu(x, full({4}, 0.25))));
  sum(prelu_layer(x)).backward();
  const Tensor below = clamp(x, -INFINITY, 0);
  const auto expected = to_vector(sum(below, {0, 2})), found = to_vector(prelu_layer.weight.grad());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
  EXPECT_THROW(PReLU(0), Error);
}

TEST(ActivationLayers, PrintTheirSizes) {
  const Sequential model{std::make_unique<LeakyReLU>(0.2),    std::make_unique<MaxPool>(2),
                         std::make_unique<PReLU>(),           std::make_unique<Softmax>(1),
                         std::make_unique<ELU>(0.5),          std::make_unique<Mish>(),
                         std::make_unique<LogSoftmax>(-1),    std::make_unique<Hardswish>(),
                         std::make_unique<AdaptiveMaxPool>(3)};
  std::ostringstream out;
  out << model;
  EXPECT_EQ(out.str(),
            "Sequential, 1 parameter\n"
            "  0: LeakyReLU(0.2)\n"
            "  1: MaxPool(kernel 2, stride 2, padding 0)\n"
            "  2: PReLU(1), 1 parameter\n"
            "  3: Softmax(axis 1)\n"
            "  4: ELU(0.5)\n"
            "  5: Mish\n"
            "  6: LogSoftmax(axis -1)\n"
            "  7: Hardswish\n"
            "  8: AdaptiveMaxPool(3)\n");
}

}  // namespace
}  // namespace binade::nn
