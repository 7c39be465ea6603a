#include "binade/ops/norm/common.h"

#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade::ops {
namespace {

TEST(NormedType, IsAutocastsUnlessMoreIsAsked) {
  EXPECT_EQ(normed_type(Op::residual_rms_norm, DType::bf16), DType::bf16);
  EXPECT_EQ(normed_type(Op::residual_rms_norm, DType::f32), DType::f32);
  auto policy = std::make_shared<amp::Policy>();
  policy->set(Op::residual_layer_norm, CastClass::f32);
  const amp::Autocast autocast(DType::f16, {.policy = policy});
  EXPECT_EQ(normed_type(Op::residual_rms_norm, DType::f32), DType::f16);
  EXPECT_EQ(normed_type(Op::residual_rms_norm, DType::f64), DType::f64);
  EXPECT_EQ(normed_type(Op::residual_layer_norm, DType::bf16), DType::f32);
}

TEST(CheckNorm, NamesWhatDoesNotFit) {
  const Tensor x = test::noise({2, 3}, 1), weight = test::noise({3}, 2);
  const auto args = [](const Tensor& x, const Tensor& residual, const Tensor& weight, double eps) {
    return NormArguments{.kind = backend::NormKind::layer,
                         .x = x,
                         .residual = residual,
                         .weight = weight,
                         .eps = eps};
  };
  EXPECT_NO_THROW(check_norm("norm", args(x, {}, {}, 0)));
  EXPECT_THROW(check_norm("norm", args(x, {}, test::noise({2}, 2), 1e-5)), Error);
  EXPECT_THROW(check_norm("norm", args(x, test::noise({3, 3}, 3), weight, 1e-5)), Error);
  EXPECT_THROW(check_norm("norm", args(x, {}, weight, -1)), Error);
  EXPECT_THROW(check_norm("norm", args(Tensor::empty({2, 0}, DType::f32), {}, {}, 1e-5)), Error);
}

// Without a gradient of the norm the result is dsum; with one, dsum is added to it.
TEST(NormGradient, AddsTheSumsOwnGradient) {
  const Tensor x = test::noise({4, 6}, 1), dy = test::noise({4, 6}, 2),
               dsum = test::noise({4, 6}, 3);
  const Tensor y = Tensor::empty_like(x), rstd = Tensor::empty({4}, DType::f32);
  backend::of(x).norm.forward(
      {.kind = backend::NormKind::rms, .x = x, .eps = 0, .y = y, .rstd = rstd});
  const NormGradient gradient{backend::NormKind::rms, x, {}, {}, rstd};
  const GradSlot unused(nullptr);
  EXPECT_TRUE(test::same_bits(gradient.through_sum(dsum, {}, unused, unused), dsum));
  const std::vector<double> alone = test::read(gradient.through_sum({}, dy, unused, unused)),
                            both = test::read(gradient.through_sum(dsum, dy, unused, unused)),
                            own = test::read(dsum);
  for (size_t i = 0; i < both.size(); ++i)
    EXPECT_EQ(both[i], static_cast<float>(alone[i]) + static_cast<float>(own[i]));
}

// One parameter's buffer may hold a gradient while the other's does not.
TEST(NormGradient, EachParameterAccumulatesForItself) {
  const Tensor x = test::noise({4, 6}, 1), dy = test::noise({4, 6}, 2);
  const auto gradients = [&](bool weight_first) {
    Tensor weight = test::noise({6}, 3), bias = test::noise({6}, 4);
    weight.set_requires_grad();
    bias.set_requires_grad();
    if (weight_first) sum(weight).backward();
    layer_norm(x, weight, bias).backward(dy);
    return std::pair(test::read(weight.grad()), test::read(bias.grad()));
  };
  const auto [weight_alone, bias_alone] = gradients(false);
  const auto [weight_added, bias_same] = gradients(true);
  EXPECT_EQ(bias_same, bias_alone);
  for (size_t i = 0; i < weight_alone.size(); ++i)
    EXPECT_EQ(weight_added[i], static_cast<float>(weight_alone[i]) + 1.0f);
}

}  // namespace
}  // namespace binade::ops
