#include "binade/ops/norm_common.h"

#include <gtest/gtest.h>

#include "binade/base/error.h"
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
  EXPECT_NO_THROW(check_norm("norm", x, x, weight, weight, 1e-5));
  EXPECT_NO_THROW(check_norm("norm", x, {}, {}, {}, 0));
  EXPECT_THROW(check_norm("norm", x, {}, test::noise({2}, 2), {}, 1e-5), Error);
  EXPECT_THROW(check_norm("norm", x, test::noise({3, 3}, 3), weight, {}, 1e-5), Error);
  EXPECT_THROW(check_norm("norm", x, {}, weight, {}, -1), Error);
  EXPECT_THROW(check_norm("norm", Tensor::empty({2, 0}, DType::f32), {}, {}, {}, 1e-5), Error);
}

// Without a gradient of the norm the sum's own is all there is; with one, the sum's is added.
TEST(NormBackward, AddsTheSumsOwnGradient) {
  const Tensor x = test::noise({4, 6}, 1), dy = test::noise({4, 6}, 2),
               dsum = test::noise({4, 6}, 3);
  const Tensor y = Tensor::empty_like(x), rstd = Tensor::empty({4}, DType::f32);
  backend::of(x).norm.forward(backend::NormKind::rms, x, {}, {}, {}, 0, {}, y, {}, rstd);
  const NormBackward backward{backend::NormKind::rms, x, {}, {}, rstd};
  const GradSlot nobody(nullptr);
  EXPECT_TRUE(test::same_bits(backward.through_sum(dsum, {}, nobody, nobody), dsum));
  const std::vector<double> alone = test::read(backward.through_sum({}, dy, nobody, nobody)),
                            both = test::read(backward.through_sum(dsum, dy, nobody, nobody)),
                            own = test::read(dsum);
  for (size_t i = 0; i < both.size(); ++i)
    EXPECT_EQ(both[i], static_cast<float>(alone[i]) + static_cast<float>(own[i]));
}

}  // namespace
}  // namespace binade::ops
