#include "binade/ops/create/copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/gpu.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

namespace binade {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(InPlace, WritesWithConversionAndBroadcast) {
  const Tensor x = zeros({2, 3}, DType::f16);
  fill_(x, 7);
  EXPECT_THAT(test::read(x), Each(7));
  copy_(x, tensor({1, 2, 3}, {3}, DType::f64));
  EXPECT_THAT(test::read(x), ElementsAre(1, 2, 3, 1, 2, 3));
  add_(x, ones({2, 3}), 0.5);
  EXPECT_THAT(test::read(x), ElementsAre(1.5, 2.5, 3.5, 1.5, 2.5, 3.5));
  fill_(select(x, 1, 1), 0);
  EXPECT_THAT(test::read(x), ElementsAre(1.5, 0, 3.5, 1.5, 0, 3.5));
  EXPECT_EQ(x.version(), 4u);
}

TEST(InPlace, NeedsNoGradForLeaves) {
  const Tensor x = test::leaf({1, 2}, {2});
  const Tensor y = x * 2.0;
  EXPECT_THAT(test::error_of([&] { copy_(x, y); }),
              HasSubstr("copy_: x: expected no leaf that requires a gradient"));
  const NoGrad plain;
  copy_(x, y);
  EXPECT_THAT(test::read(x), ElementsAre(2, 4));
}

TEST(Copies, HaveMemoryOfTheirOwn) {
  const Tensor x = test::leaf({1, 2}, {2});
  const Tensor copy = clone(x.detach());
  EXPECT_FALSE(copy.requires_grad());
  fill_(copy, 9);
  EXPECT_THAT(test::read(x), ElementsAre(1, 2));
  EXPECT_TRUE(to(x, Device::cpu()).same_as(x));
  EXPECT_EQ(describe(to(x, Device::meta())), "[2] f32 meta");
  EXPECT_TRUE(clone(transpose(zeros({2, 3}), 0, 1)).is_dense());
}

TEST(Copies, AreDifferentiable) {
  const Tensor x = test::leaf({1, 2}, {2});
  clone(x).backward(tensor({3, 4}, {2}));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(3, 4));
  const Tensor away = to(x, Device::meta());
  EXPECT_TRUE(away.requires_grad());
  const NoGrad plain;
  EXPECT_FALSE(clone(x).requires_grad());
}

TEST(CopiesGpu, BringTheirGradientHome) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Tensor x = test::leaf({1, 2}, {2});
  to(to(x, Device::cuda()) * 2.0, Device::cpu()).backward(tensor({3, 4}, {2}));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(6, 8));
}

}  // namespace
}  // namespace binade
