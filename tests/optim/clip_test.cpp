#include "binade/optim/clip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "support/error_of.h"

namespace binade::optim {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor parameter(std::initializer_list<double> gradient, DType dtype = DType::f32) {
  Tensor parameter = zeros({static_cast<int64_t>(gradient.size())}, dtype);
  parameter.set_requires_grad();
  parameter.set_grad(tensor(gradient, parameter.shape(), dtype));
  return parameter;
}

TEST(Clip, TakesAllGradientsAsOneVector) {
  const std::vector<Tensor> parameters = {parameter({3, 0}), parameter({0, -4, 0})};
  EXPECT_EQ(grad_norm(parameters).item(), 5);
  EXPECT_EQ(grad_norm(parameters, 1).item(), 7);
  EXPECT_EQ(grad_norm(parameters, INFINITY).item(), 4);
  EXPECT_EQ(clip_grad_norm(parameters, 2.5).item(), 5);
  EXPECT_NEAR(grad_norm(parameters).item(), 2.5, 1e-6);
}

TEST(Clip, LeavesSmallGradientsBitForBit) {
  const std::vector<Tensor> parameters = {parameter({0.1, 0.2, -0.3})};
  const std::vector<double> before = to_vector(parameters[0].grad());
  clip_grad_norm(parameters, 1);
  EXPECT_EQ(to_vector(parameters[0].grad()), before);
}

TEST(Clip, PassesOverParametersWithoutGradient) {
  Tensor bare = zeros({3});
  bare.set_requires_grad();
  const std::vector<Tensor> parameters = {bare, parameter({6, 8})};
  EXPECT_EQ(clip_grad_norm(parameters, 1).item(), 10);
  EXPECT_FALSE(bare.grad().defined());
  EXPECT_EQ(grad_norm({bare}).item(), 0);
  EXPECT_EQ(grad_norm({}).item(), 0);
}

TEST(Clip, SixteenBitGradientsAreSummedInF32) {
  // 4096 squares of 2^-6 sum to 1; an f16 sum would stop at 0.5.
  Tensor half = zeros({4096}, DType::f16);
  half.set_requires_grad();
  half.set_grad(full({4096}, 0x1p-6, DType::f16));
  EXPECT_EQ(grad_norm({half}).item(), 1);
  clip_grad_norm({half}, 0.5);
  EXPECT_THAT(to_vector(half.grad()), Each(0x1p-7));
}

TEST(Clip, ValueLimitsEveryElement) {
  const Tensor x = parameter({-3, -0.5, 0, 0.5, 3});
  clip_grad_value({x}, 1);
  EXPECT_THAT(to_vector(x.grad()), ElementsAre(-1, -0.5, 0, 0.5, 1));
}

TEST(Clip, RefusesBadLimits) {
  const std::vector<Tensor> parameters = {parameter({1})};
  for (const double bad : {-1.0, static_cast<double>(NAN)}) {
    EXPECT_THAT(test::error_of([&] { clip_grad_norm(parameters, bad); }), HasSubstr("max_norm"));
    EXPECT_THAT(test::error_of([&] { clip_grad_value(parameters, bad); }), HasSubstr("limit"));
    EXPECT_THAT(test::error_of([&] { clip_grad_norm(parameters, 1, bad); }),
                HasSubstr("p: expected more than 0"));
  }
  EXPECT_THROW(grad_norm(parameters, 0), Error);
  EXPECT_THAT(test::error_of([&] { clip_grad_norm(parameters, -1e-9); }), HasSubstr("found -1e-09"))
      << "not rounded to zero";
}

}  // namespace
}  // namespace binade::optim
