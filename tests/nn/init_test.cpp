#include "binade/nn/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/nn/conv.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/shape/shape.h"
#include "support/error_of.h"
#include "support/values.h"

namespace binade::nn {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

struct Spread {
  double mean = 0, deviation = 0, largest = 0;
};

TEST(ManualSeed, RestartsInitialValuesAndDraws) {
  const auto draw = [] {
    std::vector<double> values = to_vector(Linear(3, 2).weight);
    for (const double value : to_vector(randn({4}))) values.push_back(value);
    return values;
  };
  manual_seed(5);
  const auto first = draw();
  EXPECT_NE(draw(), first);
  manual_seed(5);
  EXPECT_EQ(draw(), first);
  manual_seed(6);
  EXPECT_NE(draw(), first);
}

Spread spread_of(const Tensor& x) {
  Spread s;
  const auto values = to_vector(x);
  const auto n = static_cast<double>(values.size());
  for (const double value : values) {
    s.mean += value / n;
    s.largest = std::max(s.largest, std::fabs(value));
  }
  for (const double value : values) s.deviation += (value - s.mean) * (value - s.mean) / n;
  s.deviation = std::sqrt(s.deviation);
  return s;
}

// Within five standard errors of 200 * 300 draws: 1 / sqrt(2 n) of a deviation.
constexpr double five_errors = 5 * 0.0029;

TEST(Init, UnsetDrawsNothing) {
  const Shape shape{37, 41};
  const Tensor drawn = init::normal(shape, 1, {});  // kept alive, so that its memory is not reused
  const init::SkipInit unset;
  EXPECT_FALSE(test::same_bits(init::normal(shape, 1, {}), drawn));
}

TEST(Init, UnsetEndsWithItsScope) {
  { const init::SkipInit unset; }
  EXPECT_EQ(init::constant({3}, 2, {}).data<float>()[1], 2);
}

TEST(Init, XavierAndKaimingHaveTheirVariance) {
  const Tensor x = zeros({200, 300});
  const auto expect = [&](const char* name, double deviation, bool is_uniform) {
    const Spread s = spread_of(x);
    EXPECT_NEAR(s.deviation, deviation, five_errors * deviation) << name;
    EXPECT_NEAR(s.mean, 0, 5 * deviation / std::sqrt(60000.0)) << name;
    if (is_uniform) {
      EXPECT_LE(s.largest, deviation * std::sqrt(3.0) * (1 + 1e-6)) << name;
    } else {
      EXPECT_GT(s.largest, 3 * deviation) << name;
    }
  };
  init::xavier_uniform_(x, 2);
  expect("xavier_uniform_", 2 * std::sqrt(2.0 / 500), true);
  init::xavier_normal_(x);
  expect("xavier_normal_", std::sqrt(2.0 / 500), false);
  init::kaiming_uniform_(x, {.slope = std::sqrt(5.0)});  // PyTorch's linear layers
  expect("kaiming_uniform_", std::sqrt(1.0 / 3 / 300), true);
  init::kaiming_normal_(x,
                        {.fan = init::Kaiming::Fan::out, .nonlinearity = init::Nonlinearity::relu});
  expect("kaiming_normal_", std::sqrt(2.0 / 200), false);
  init::normal_(x, 0, 0.3);
  expect("normal_", 0.3, false);
  init::uniform_(x, -1, 1);
  expect("uniform_", std::sqrt(1.0 / 3), true);
}

TEST(Init, FansCountTheKernel) {
  const Conv2d layer({.in = 4, .out = 6, .kernel = {3, 5}});
  const auto [in, out] = init::fans(layer.weight);
  EXPECT_EQ(in, 60);
  EXPECT_EQ(out, 90);
}

TEST(Init, GainsAreTorchs) {
  EXPECT_EQ(init::gain(init::Nonlinearity::linear), 1);
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::relu), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::leaky_relu, 0.5), std::sqrt(1.6));
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::selu), 0.75);
}

// The deviation of a standard normal cut at 2 is 0.8796; a wide cut changes nothing.
TEST(Init, TruncatedNormalStaysInItsBounds) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = zeros({200, 300}, dtype);
    init::trunc_normal_(x, {.mean = 1, .deviation = 0.5, .low = 0, .high = 2});
    const Spread s = spread_of(x);
    EXPECT_NEAR(s.deviation, 0.5 * 0.8796, 0.5 * five_errors);
    EXPECT_NEAR(s.mean, 1, 0.01);
    for (const double value : to_vector(x)) ASSERT_TRUE(value >= 0 && value <= 2);
  }
  EXPECT_THROW(init::trunc_normal_(zeros({3}), {.low = 2, .high = -2}), Error);
}

TEST(Init, OrthogonalMatricesAreOrthogonal) {
  for (const Shape& shape : {Shape{20, 20}, Shape{12, 30}, Shape{30, 12}, Shape{8, 3, 2, 2}}) {
    const Tensor x = zeros(shape);
    init::orthogonal_(x, 2);
    const Tensor matrix = reshape(x, {shape[0], -1});
    const bool is_tall = matrix.size(0) > matrix.size(1);
    const Tensor product =
        is_tall ? mm(transpose(matrix, 0, 1), matrix) : mm(matrix, transpose(matrix, 0, 1));
    const auto values = to_vector(product);
    const auto size = static_cast<size_t>(product.size(0));
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], i / size == i % size ? 4 : 0, 1e-5);
  }
}

TEST(Init, ConstantAndEye) {
  const Tensor x = zeros({2, 3});
  init::constant_(x, 4);
  EXPECT_THAT(to_vector(x), Each(4.0));
  init::eye_(x);
  EXPECT_EQ(to_vector(x), (std::vector<double>{1, 0, 0, 0, 1, 0}));
}

TEST(Init, AppliesByName) {
  Sequential model{std::make_unique<Linear>(4, 8), std::make_unique<Linear>(8, 2)};
  init::apply(model, "*.bias", [](const Tensor& x) { init::constant_(x, 3); });
  init::apply(model, "1.weight", [](const Tensor& x) { init::eye_(x); });
  const auto state = model.state_dict();
  EXPECT_THAT(to_vector(state.at("0.bias")), Each(3.0));
  EXPECT_THAT(to_vector(state.at("1.bias")), Each(3.0));
  EXPECT_EQ(to_vector(state.at("1.weight"))[1], 0);
  EXPECT_EQ(to_vector(state.at("1.weight"))[9], 1);
  EXPECT_NE(to_vector(state.at("0.weight"))[0], 3);
  EXPECT_THAT(test::error_of([&] { init::apply(model, "2.*", [](const Tensor&) {}); }),
              HasSubstr("'2.*'"));
}

// A model is a function of its seed, whatever sets its values.
TEST(Init, RepeatsItsDrawsUnderASeed) {
  const auto drawn = [](uint64_t seed) {
    init::restart(seed);
    const Tensor x = zeros({10, 10});
    init::trunc_normal_(x);
    const Tensor y = zeros({10, 10});
    init::orthogonal_(y);
    return to_vector(cat({x, y}, 0));
  };
  EXPECT_EQ(drawn(3), drawn(3));
  EXPECT_NE(drawn(3), drawn(4));
}

TEST(Init, RefusesTensorsWithoutFans) {
  EXPECT_THAT(test::error_of([] { init::xavier_uniform_(zeros({3})); }),
              HasSubstr("at least 2 axes"));
  EXPECT_THROW(init::kaiming_normal_(zeros({2, 2}, DType::i64)), Error);
  EXPECT_THROW(init::orthogonal_(Tensor()), Error);
  EXPECT_THROW(init::eye_(zeros({2, 2, 2})), Error);
}

}  // namespace
}  // namespace binade::nn
