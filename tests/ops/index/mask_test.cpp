#include "binade/ops/index/mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/values.h"

// Ops whose result's shape depends on values, which the op table cannot describe.
namespace binade {
namespace {

using testing::ElementsAre;

TEST(Nonzero, GivesIndicesInOrder) {
  const Tensor x = tensor({0, 2, 0, -1, 0, 3}, {2, 3});
  EXPECT_EQ(nonzero(x).shape(), (Shape{3, 2}));
  EXPECT_THAT(test::read(nonzero(x)), ElementsAre(0, 1, 1, 0, 1, 2));
  EXPECT_THAT(test::read(nonzero(transpose(x, 0, 1))), ElementsAre(0, 1, 1, 0, 2, 1));
  EXPECT_THAT(test::read(nonzero(greater(x, 0))), ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(nonzero(zeros({3})).shape(), (Shape{0, 1}));
  EXPECT_EQ(nonzero(ones({})).shape(), (Shape{1, 0}));
}

TEST(MaskedSelect, TakesElementsAndReturnsTheirGradient) {
  Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  x.set_requires_grad();
  const Tensor mask = tensor({1, 0, 1}, {3}, DType::boolean);
  const Tensor y = masked_select(x, mask);
  EXPECT_THAT(test::read(y), ElementsAre(1, 3, 4, 6));
  sum(y * y).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(2, 0, 6, 8, 0, 12));
  EXPECT_EQ(masked_select(x, zeros({3}, DType::boolean)).shape(), (Shape{0}));
}

TEST(MaskedSelect, RefusesWhatItCannotAnswer) {
  EXPECT_THROW(masked_select(ones({3}), ones({3})), Error);
  EXPECT_THROW(masked_select(ones({3}), ones({2}, DType::boolean)), Error);
  EXPECT_THROW(nonzero(zeros({3}, DType::f32, Device::meta())), Error);
  EXPECT_THROW(masked_fill(ones({3}), ones({2, 3}, DType::boolean), 0), Error);
}

}  // namespace
}  // namespace binade
