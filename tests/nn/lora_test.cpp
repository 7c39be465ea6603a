#include "binade/nn/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/nn/linear.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"

namespace binade::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A layer from 2 to 4 channels whose weights are 0, so that only its bias and adapter show.
struct AdaptedLayer {
  explicit AdaptedLayer(Activation activation = Activation::none, DType dtype = DType::f32)
      : linear({.in = 2, .out = 4, .activation = activation}, {Device::cpu(), dtype}),
        adapter(
            linear.add_adapter("part", {.in = 2, .begin = 1, .rows = 2, .rank = 1, .scale = 0.5})) {
    fill_(linear.weight.detach(), 0);
    copy_(linear.bias.detach(), tensor({1, 2, 3, 4}, {4}));
    copy_(adapter.a.detach(), tensor({2, 4}, {1, 2}));
    copy_(adapter.b.detach(), tensor({1, -1}, {2, 1}));
  }
  Linear linear;
  LoraAdapter& adapter;
};

TEST(Lora, AddsToItsChannelsOnly) {
  AdaptedLayer layer;
  const Tensor x = tensor({1, 3}, {1, 2});
  // a x = 14, times the scale 7: added to channel 1, subtracted from channel 2.
  EXPECT_THAT(to_vector(layer.linear(x)), ElementsAre(1, 9, -4, 4));
}

TEST(Lora, ComesBeforeTheActivation) {
  AdaptedLayer layer(Activation::relu);
  const Tensor x = tensor({1, 3}, {1, 2});
  EXPECT_THAT(to_vector(layer.linear(x)), ElementsAre(1, 9, 0, 4));
}

TEST(Lora, AFrozenLayerGetsNoGradient) {
  AdaptedLayer layer;
  layer.linear.weight.set_requires_grad(false);
  layer.linear.bias.set_requires_grad(false);
  const Tensor x = tensor({1, 3}, {1, 2});
  const Tensor weights = tensor({5, 7, 11, 13}, {1, 4});
  sum(layer.linear(x) * weights).backward();
  EXPECT_FALSE(layer.linear.weight.grad().defined());
  // d/db = scale * weight * (a x); d/da = scale * (sum of weight * b) * x.
  EXPECT_THAT(to_vector(layer.adapter.b.grad()), ElementsAre(49, 77));
  EXPECT_THAT(to_vector(layer.adapter.a.grad()), ElementsAre(-2, -6));
}

TEST(Lora, StaysF32BesideABf16Layer) {
  AdaptedLayer layer(Activation::none, DType::bf16);
  EXPECT_EQ(layer.adapter.a.dtype(), DType::f32);
  const Tensor x = cast(tensor({1, 3}, {1, 2}), DType::bf16);
  const Tensor y = layer.linear(x);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_THAT(to_vector(y), ElementsAre(1, 9, -4, 4));
  const amp::Autocast cast_to(DType::bf16);
  EXPECT_THAT(to_vector(layer.linear(x)), ElementsAre(1, 9, -4, 4));
}

TEST(Lora, ANewAdapterChangesNothing) {
  Linear linear(3, 5);
  const Tensor x = tensor({1, 2, 3}, {1, 3});
  const std::vector<double> before = to_vector(linear(x));
  linear.add_adapter("all", {.in = 3, .rows = 5, .rank = 2, .scale = 4});
  EXPECT_EQ(to_vector(linear(x)), before);
}

TEST(Lora, RefusesChannelsThatAreTakenOrMissing) {
  Linear linear(3, 5);
  linear.add_adapter("first", {.in = 3, .begin = 1, .rows = 2});
  for (const LoraConfig& config :
       {LoraConfig{.in = 3, .begin = 2, .rows = 1}, LoraConfig{.in = 3, .begin = 4, .rows = 2},
        LoraConfig{.in = 2, .begin = 4, .rows = 1}}) {
    try {
      linear.add_adapter("second", config);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("channels of [5, 3] f32 cpu without an adapter"));
    }
  }
}

}  // namespace
}  // namespace binade::nn
