#include "binade/backend/async_scalar.h"

#include <gtest/gtest.h>

#include "support/values.h"

namespace binade::backend::async_scalar_test {
namespace {

TEST(AsyncScalar, OutsideOfACaptureKeepsItsValue) {
  const Tensor x = Tensor::empty({1}, DType::f32);
  test::fill(x, 3);
  const AsyncScalar scalar(x);
  test::fill(x, 4);
  EXPECT_FALSE(scalar.captured());
  EXPECT_EQ(scalar.get(), 3);
  EXPECT_EQ(scalar.replayed().get(), 3);
  EXPECT_FALSE(AsyncScalar().replayed().defined());
}

}  // namespace
}  // namespace binade::backend::async_scalar_test
