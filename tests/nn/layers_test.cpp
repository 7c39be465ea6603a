#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "binade/binade.h"
#include "binade/nn/init.h"
#include "binade/nn/norm_linear.h"
#include "support/error_of.h"

namespace binade::nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

Tensor random_input(const Shape& shape, uint64_t stream = 0) { return randn(shape, {11, stream}); }

// --- initial values ---

TEST(Init, IsAFunctionOfTheSeed) {
  const auto weights = [](uint64_t seed) {
    return to_vector(
        GPT({.layers = 1, .width = 8, .heads = 2, .vocab = 9, .context = 4, .seed = seed})
            .parameters()[0]);
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

TEST(Init, EveryTensorHasAStreamOfItsOwn) {
  init::restart(3);
  const Tensor a = init::normal({64}, 1, {}), b = init::normal({64}, 1, {});
  EXPECT_NE(to_vector(a), to_vector(b));
  init::restart(3);
  EXPECT_EQ(to_vector(init::normal({64}, 1, {})), to_vector(a));
}

TEST(Init, HasTheDeviationAsked) {
  init::restart(4);
  constexpr int64_t count = 100'000;
  const std::vector<double> normal = to_vector(init::normal({count}, 0.02, {}));
  EXPECT_NEAR(mean_of(normal), 0, 5 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(deviation_of(normal), 0.02, 5 * 0.02 / std::sqrt(2.0 * count));
  const std::vector<double> uniform = to_vector(init::uniform({count}, 0.5, {}));
  EXPECT_THAT(uniform, Each(::testing::AllOf(::testing::Ge(-0.5), ::testing::Lt(0.5))));
  EXPECT_NEAR(deviation_of(uniform), 1 / std::sqrt(12.0), 0.01);
  EXPECT_EQ(init::constant({3}, 2, {Device::cpu(), DType::bf16}).dtype(), DType::bf16);
}

// PyTorch's bound for linear layers and convolutions is 1 / sqrt(inputs of one output). The largest
// of n uniform draws is below 0.9 of the bound with probability 0.9^n.
void expect_bound(const Tensor& x, double inputs) {
  double largest = 0;
  for (const double value : to_vector(x)) largest = std::max(largest, std::abs(value));
  EXPECT_LE(largest, 1 / std::sqrt(inputs));
  EXPECT_GT(largest, 0.9 / std::sqrt(inputs));
}

TEST(Init, OfLinearLayersAndConvolutionsHasPyTorchsBound) {
  init::restart(5);
  const Linear wide({.in = 10, .out = 200}), tall({.in = 200, .out = 10});
  expect_bound(wide.weight, 10);
  expect_bound(wide.bias, 10);
  expect_bound(tall.weight, 200);
  const Conv2d conv({.in = 8, .out = 100, .kernel = {3}, .options = {.groups = 4}});
  expect_bound(conv.weight, 8 / 4 * 3 * 3);
  expect_bound(conv.bias, 8 / 4 * 3 * 3);
}

// --- linear and embedding ---

TEST(Linear, IsTheOpOnItsParameters) {
  Linear layer({.in = 5, .out = 3, .activation = Activation::gelu_tanh});
  const Tensor x = random_input({2, 4, 5});
  EXPECT_EQ(to_vector(layer(x)),
            to_vector(linear(x, layer.weight, layer.bias, Activation::gelu_tanh)));
  // PyTorch's bound of 1 / sqrt(in).
  EXPECT_THAT(to_vector(layer.weight), Each(::testing::Le(1 / std::sqrt(5.0))));
  Linear bare({.in = 5, .out = 3, .bias = false, .deviation = 0.02});
  EXPECT_FALSE(bare.bias.defined());
  EXPECT_EQ(bare.parameters().size(), 1u);
  EXPECT_THAT(test::error_of([] { Linear({.in = 0, .out = 3}); }), HasSubstr("found 0, 3"));
  EXPECT_THROW(Linear({.in = 3, .out = -1}), Error);
}

TEST(Embedding, LooksRowsUp) {
  Embedding layer({.count = 4, .width = 3});
  const std::vector<double> rows = to_vector(layer.weight);
  const std::vector<double> found = to_vector(layer(tensor({2, 0}, {2}, DType::i64)));
  EXPECT_THAT(found, ElementsAre(rows[6], rows[7], rows[8], rows[0], rows[1], rows[2]));
  EXPECT_THROW(layer(tensor({4}, {1}, DType::i64)), Error);
  EXPECT_THROW(Embedding({.count = 0, .width = 3}), Error);
  EXPECT_EQ(Embedding(4, 3).weight.shape(), layer.weight.shape());
}

// --- convolutions ---

TEST(Conv, ShapesFollowTheConfiguration) {
  Conv1d one({.in = 4, .out = 6, .kernel = {5}, .options = {.padding = {2}, .groups = 2}});
  EXPECT_EQ(one.weight.shape(), (Shape{6, 2, 5}));
  EXPECT_EQ(one(random_input({2, 4, 9})).shape(), (Shape{2, 6, 9}));
  Conv2d two({.in = 3, .out = 8, .kernel = {3, 5}, .options = {.stride = {2}}, .bias = false});
  EXPECT_EQ(two.weight.shape(), (Shape{8, 3, 3, 5}));
  EXPECT_EQ(two(random_input({1, 3, 9, 11})).shape(), (Shape{1, 8, 4, 4}));
  EXPECT_FALSE(two.bias.defined());
  EXPECT_EQ(Conv2d(3, 8, 5).weight.shape(), (Shape{8, 3, 5, 5}));
  EXPECT_EQ(ConvTranspose2d(3, 8, 5).weight.shape(), (Shape{3, 8, 5, 5}));
  Conv3d three({.in = 2, .out = 2, .kernel = {2}});
  EXPECT_EQ(three(random_input({1, 2, 4, 4, 4})).shape(), (Shape{1, 2, 3, 3, 3}));
  EXPECT_THROW(Conv2d({.in = 3, .out = 4, .options = {.groups = 2}}), Error);
  EXPECT_THROW(Conv2d({.in = 4, .out = 4, .kernel = {3, 3, 3}}), Error);
  EXPECT_THAT(test::error_of([] { Conv2d({.in = 4, .out = 4, .kernel = {0}}); }),
              HasSubstr("kernel: expected at least 1"));
}

// --- norms ---

TEST(Norms, AreTheOpsOnTheirParameters) {
  const Tensor x = random_input({3, 8}), residual = random_input({3, 8}, 1);
  LayerNorm layer(8);
  RMSNorm rms(8);
  EXPECT_EQ(to_vector(layer(x)), to_vector(layer_norm(x, layer.weight, layer.bias)));
  EXPECT_EQ(to_vector(rms(x)), to_vector(rms_norm(x, rms.weight)));
  const auto [sum, normed] = layer.add(x, residual);
  EXPECT_EQ(to_vector(sum), to_vector(x + residual));
  EXPECT_EQ(to_vector(normed), to_vector(layer(x + residual)));
  EXPECT_EQ(LayerNorm(8, {.bias = false}).parameters().size(), 1u);
  EXPECT_THROW(LayerNorm(0), Error);
  EXPECT_THROW(RMSNorm(-1), Error);
}

TEST(BatchNorm, MovesItsStatisticsInTrainingAlone) {
  BatchNorm layer(2, 1e-5, 0.25);
  const Tensor x = tensor({1, 10, 3, 20, 5, 30, 7, 40}, {4, 2});
  layer(x);
  // Means 4 and 25; unbiased variances 20 / 3 and 500 / 3.
  EXPECT_THAT(to_vector(layer.running_mean), ElementsAre(1, 6.25));
  EXPECT_NEAR(to_vector(layer.running_var)[0], 0.75 + 0.25 * 20 / 3, 1e-6);
  EXPECT_NEAR(to_vector(layer.running_var)[1], 0.75 + 0.25 * 500 / 3, 1e-5);
  layer.eval();
  const std::vector<double> mean = to_vector(layer.running_mean),
                            variance = to_vector(layer.running_var);
  const std::vector<double> y = to_vector(layer(x));
  EXPECT_EQ(to_vector(layer.running_mean), mean);
  EXPECT_EQ(to_vector(layer.running_var), variance);
  EXPECT_NEAR(y[0], (1 - mean[0]) / std::sqrt(variance[0] + 1e-5), 1e-6);
  EXPECT_NEAR(y[1], (10 - mean[1]) / std::sqrt(variance[1] + 1e-5), 1e-6);
}

TEST(BatchNorm, RecomputeMovesStatisticsOnce) {
  BatchNorm plain(2), again(2);
  Tensor x = random_input({4, 2});
  x.set_requires_grad();
  sum(square(plain(x))).backward();
  const std::vector<double> gradient = to_vector(x.grad());
  x.zero_grad();
  sum(square(checkpoint([&](std::span<const Tensor> in) { return again(in[0]); }, {x}))).backward();
  EXPECT_EQ(to_vector(x.grad()), gradient);
  EXPECT_EQ(to_vector(again.running_mean), to_vector(plain.running_mean));
  EXPECT_EQ(to_vector(again.running_var), to_vector(plain.running_var));
  EXPECT_EQ(again.batches(), 1);
}

TEST(BatchNorm, CountsItsBatches) {
  BatchNorm layer(2), other(2);
  const Tensor x = randn({3, 2, 4}, {1, 1});
  const auto count_in = [](BatchNorm& of) {
    return of.state_dict().at("num_batches_tracked").item();
  };
  EXPECT_EQ(count_in(layer), 0);
  for (int i = 0; i < 3; ++i) layer(x);
  layer.eval();
  layer(x);
  EXPECT_EQ(count_in(layer), 3);
  EXPECT_EQ(layer.state_dict().at("num_batches_tracked").dtype(), DType::i64);
  other.load_state_dict(layer.state_dict());
  EXPECT_EQ(count_in(other), 3);
  // Saved by a program that did not count.
  StateDict old = layer.state_dict();
  old.erase("num_batches_tracked");
  other.load_state_dict(old);
  EXPECT_EQ(other.batches(), 0);
  other(x);
  EXPECT_EQ(count_in(other), 1);
}

TEST(BatchNorm, StatisticsStayF32AndAreSaved) {
  BatchNorm layer(3);
  layer.to(DType::bf16);
  EXPECT_EQ(layer.weight.dtype(), DType::bf16);
  EXPECT_EQ(layer.running_mean.dtype(), DType::f32);
  EXPECT_EQ(layer(cast(random_input({4, 3, 2, 2}), DType::bf16)).dtype(), DType::bf16);
  const StateDict state = layer.state_dict();
  EXPECT_EQ(state.size(), 5u);
  EXPECT_EQ(to_vector(state.at("running_mean")), to_vector(layer.running_mean));
}

TEST(GroupNorm, IsTheOpOnItsParameters) {
  GroupNorm layer(2, 4);
  const Tensor x = random_input({3, 4, 5});
  EXPECT_EQ(to_vector(layer(x)), to_vector(group_norm(x, 2, layer.weight, layer.bias)));
  EXPECT_THROW(GroupNorm(3, 4)(x), Error);
  EXPECT_THROW(GroupNorm(2, 0), Error);
}

// A group norm with one channel per group.
TEST(InstanceNorm, NormalizesEachChannelOfEachSample) {
  InstanceNorm plain(4);
  const Tensor x = random_input({3, 4, 5, 6}) * 3 + 1;
  const Tensor y = plain(x);
  EXPECT_EQ(to_vector(y), to_vector(group_norm(x, 4)));
  EXPECT_THAT(to_vector(mean(y, {2, 3})), Each(::testing::DoubleNear(0, 1e-5)));
  EXPECT_TRUE(plain.state_dict().empty());
  EXPECT_EQ(plain.description(), "InstanceNorm(4)");
  plain.eval();
  EXPECT_EQ(to_vector(plain(x)), to_vector(y)) << "no running statistics";

  InstanceNorm affine(4, {.eps = 1e-3, .affine = true});
  affine.load_state_dict({{"weight", tensor({1.0, 2.0, 3.0, 4.0})}, {"bias", full({4}, 0.5)}});
  EXPECT_EQ(to_vector(affine(x)), to_vector(group_norm(x, 4, affine.weight, affine.bias, 1e-3)));
  EXPECT_THAT(test::error_of([&] {
                plain(random_input({3, 5, 6}));
              }),
              HasSubstr("expected [n, 4, ...]"));
  EXPECT_THROW(plain(random_input({4})), Error);
  EXPECT_THROW(InstanceNorm(0), Error);
}

// --- dropout ---

TEST(Dropout, DropsItsShareAndKeepsTheMean) {
  Dropout layer(0.3);
  constexpr int64_t count = 100'000;
  random::begin_step(1, 1);
  const std::vector<double> values = to_vector(layer(ones({count})));
  const double kept = 1 / (1 - 0.3f);
  EXPECT_THAT(values, Each(::testing::AnyOf(0.0, ::testing::DoubleNear(kept, 1e-6))));
  const auto zeros = static_cast<double>(std::count(values.begin(), values.end(), 0.0));
  const double deviation = std::sqrt(0.3 * 0.7 / count);
  EXPECT_NEAR(zeros / count, 0.3, 5 * deviation);
  EXPECT_NEAR(mean_of(values), 1, 5 * deviation * kept);
}

TEST(Dropout, IsAFunctionOfSeedStepAndPlace) {
  Dropout layer(0.5);
  const auto draw = [&](uint64_t seed, uint64_t step) {
    random::begin_step(seed, step);
    const Tensor first = layer(ones({200})), second = layer(ones({200}));
    EXPECT_NE(to_vector(first), to_vector(second));
    return to_vector(first);
  };
  EXPECT_EQ(draw(1, 1), draw(1, 1));
  EXPECT_NE(draw(1, 1), draw(1, 2));
  EXPECT_NE(draw(1, 1), draw(2, 1));
}

TEST(Dropout, TheGradientHasTheSameMask) {
  Dropout layer(0.5);
  random::begin_step(1, 1);
  Tensor x = ones({300});
  x.set_requires_grad();
  const Tensor y = layer(x);
  sum(y).backward();
  EXPECT_EQ(to_vector(x.grad()), to_vector(y));
}

TEST(Dropout, PassesThroughWithoutTraining) {
  Dropout layer(0.9);
  const Tensor x = random_input({10});
  layer.eval();
  EXPECT_EQ(to_vector(layer(x)), to_vector(x));
  Dropout none(0), all(1);
  EXPECT_EQ(to_vector(none(x)), to_vector(x));
  EXPECT_THAT(to_vector(all(x)), Each(0.0));
  EXPECT_THROW(Dropout(-0.1), Error);
  EXPECT_THROW(Dropout(1.1), Error);
  EXPECT_THROW(Dropout(NAN), Error);
}

// --- sequences ---

TEST(Sequential, RefusesLayersItDoesNotHave) {
  Sequential model(std::make_unique<Function>(relu));
  EXPECT_NO_THROW(model[0]);
  EXPECT_THAT(test::error_of([&] { model[1]; }),
              "Sequential: index: expected fewer than 1, found 1");
  EXPECT_THROW(std::as_const(model)[7], Error);
}

TEST(Sequential, RunsLayersInTurn) {
  Sequential model(std::make_unique<Linear>(LinearConfig{.in = 3, .out = 5}),
                   std::make_unique<Function>(relu),
                   std::make_unique<Linear>(LinearConfig{.in = 5, .out = 2}));
  EXPECT_EQ(model.size(), 3u);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : model.named_parameters()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("0.weight", "0.bias", "2.weight", "2.bias"));
  const Tensor x = random_input({4, 3});
  EXPECT_EQ(to_vector(model(x)), to_vector(model[2](relu(model[0](x)))));
  EXPECT_EQ(to_vector(Sequential()(x)), to_vector(x));
  EXPECT_THROW(model.add(nullptr), Error);
}

TEST(NormLinear, IsTheNormThenTheProduct) {
  NormLinear layer({.linear = {.in = 6, .out = 4}, .norm = NormKind::rms});
  std::vector<std::string> names;
  for (const auto& [name, parameter] : layer.named_parameters()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("norm.weight", "linear.weight", "linear.bias"));
  const Tensor x = random_input({3, 6});
  const StateDict state = layer.state_dict();
  EXPECT_EQ(to_vector(layer(x)),
            to_vector(linear(rms_norm(x, state.at("norm.weight")), state.at("linear.weight"),
                             state.at("linear.bias"))));
  NormMLP mlp({.mlp = {.width = 6, .hidden = 8, .gated = true}});
  EXPECT_EQ(mlp(x).shape(), (Shape{3, 6}));
}

}  // namespace
}  // namespace binade::nn
