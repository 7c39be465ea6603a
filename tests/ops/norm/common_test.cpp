#include "binade/ops/norm/common.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/base/error.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
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
  EXPECT_TRUE(test::same_bits(gradient.through_sum(dsum, {}, unused, unused, unused), dsum));
  const std::vector<double> alone =
                                test::read(gradient.through_sum({}, dy, unused, unused, unused)),
                            both =
                                test::read(gradient.through_sum(dsum, dy, unused, unused, unused)),
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

// A linear layer whose result is added to a residual stream and normed. `use` may do more with the
// layer's result before the backward.
struct BiasRun {
  Tensor bias_gradient;

  template <class Use>
  explicit BiasRun(DType dtype, Use use) {
    const Tensor x = cast(test::noise({2, 5, 4}, 1), dtype),
                 weight = cast(test::noise({6, 4}, 2), dtype);
    Tensor bias = cast(test::noise({6}, 3), dtype);
    bias.set_requires_grad();
    const Tensor result = linear(x, weight, bias);
    Tensor more = use(result);
    const auto [stream, normed] = residual_layer_norm(
        result, cast(test::noise({2, 5, 6}, 4), dtype), cast(test::noise({6}, 5), dtype), {});
    Tensor loss = sum(cast(stream * cast(test::noise({2, 5, 6}, 6), dtype), DType::f32)) +
                  sum(cast(normed * cast(test::noise({2, 5, 6}, 7), dtype), DType::f32));
    if (more.defined()) loss = loss + more;
    loss.backward();
    bias_gradient = bias.grad();
  }
};

Tensor nothing(const Tensor&) { return {}; }

// The norm's backward computes the sums that are the gradient of the layer's bias.
TEST(GradientSums, ReachTheOpThatAskedForThem) {
  struct Receiver final : autograd::GradientSums {
    void set(const Tensor& gradient, const Tensor& sums) override { got = {gradient, sums}; }
    std::pair<Tensor, Tensor> got;
  };
  const auto receiver = std::make_shared<Receiver>();
  const BiasRun run(DType::bf16, [&](const Tensor& result) {
    offer_gradient_sums(result, receiver);
    return Tensor();
  });
  const auto& [gradient, sums] = receiver->got;
  ASSERT_TRUE(sums.defined());
  EXPECT_EQ(gradient.dtype(), DType::bf16);
  const std::vector<double> values = test::read(gradient), found = test::read(sums);
  for (size_t column = 0; column < 6; ++column) {
    double total = 0, size = 0;
    for (size_t row = 0; row < 10; ++row) {
      total += values[6 * row + column];
      size += std::abs(values[6 * row + column]);
    }
    EXPECT_NEAR(found[column], total, 10 * epsilon(DType::f32) * size);
  }
  EXPECT_TRUE(test::same_bits(BiasRun(DType::bf16, nothing).bias_gradient, run.bias_gradient));
}

TEST(GradientSums, AreNotAskedForByAFrozenBias) {
  const Tensor x = test::noise({2, 4}, 1), weight = test::noise({6, 4}, 2).set_requires_grad();
  Tensor bias = test::noise({6}, 3);
  const auto asks = [&] {
    return !linear(x, weight, bias).autograd_meta()->gradient_sums.expired();
  };
  EXPECT_FALSE(asks());
  bias.set_requires_grad();
  EXPECT_TRUE(asks());
}

// The cast of the bias has no gradient, the bias has. The sum's gradient is 1: 2 rows add 2.
TEST(GradientSums, ReachABiasThatAutocastCasts) {
  const Tensor bias = test::noise({6}, 3).set_requires_grad();
  Tensor y;
  {
    const amp::Autocast autocast(DType::bf16);
    y = linear(test::noise({2, 4}, 1), test::noise({6, 4}, 2), bias);
  }
  ASSERT_EQ(y.dtype(), DType::bf16);
  sum(y).backward();
  for (const double gradient : test::read(bias.grad())) EXPECT_EQ(gradient, 2);
}

// A hook may replace the gradient after its sums were computed.
TEST(GradientSums, AreNotThoseOfAReplacedGradient) {
  const std::vector<double> once = test::read(BiasRun(DType::f32, nothing).bias_gradient);
  const BiasRun doubled(DType::f32, [](const Tensor& result) {
    autograd::on_gradient(result, [](const Tensor& gradient) { return gradient * 2; });
    return Tensor();
  });
  const std::vector<double> twice = test::read(doubled.bias_gradient);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(twice[i], 2 * once[i]);
}

// The sum of all elements has the gradient 1 everywhere: 10 rows add 10.
TEST(GradientSums, AreNotThoseOfAPartOfTheGradient) {
  const std::vector<double> once = test::read(BiasRun(DType::f64, nothing).bias_gradient);
  const BiasRun used_twice(DType::f64,
                           [](const Tensor& result) { return sum(cast(result, DType::f32)); });
  const std::vector<double> found = test::read(used_twice.bias_gradient);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(found[i], once[i] + 10, 1e-12);
}

}  // namespace
}  // namespace binade::ops
