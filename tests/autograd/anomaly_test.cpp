#include "binade/autograd/anomaly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/module_path.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade {
namespace {

using test::leaf;

// sqrt has an infinite derivative at 0, and zero times infinity is NaN.
Tensor bad_loss(const Tensor& x) {
  const autograd::ModuleScope scope("block");
  return sum(sqrt(x) * 0);
}

TEST(DetectAnomaly, NamesTheOpAndItsModule) {
  const Tensor x = leaf({0, 1}, {2});
  bad_loss(x).backward();
  const autograd::DetectAnomaly detect;
  x.zero_grad();
  EXPECT_EQ(test::error_of([&] { bad_loss(x).backward(); }),
            "sqrt: gradient of input 0: expected no NaN, found NaN in [2] f32 cpu; its forward ran "
            "in the module block");
}

TEST(DetectAnomaly, PassesFiniteAndInfiniteGradients) {
  const autograd::DetectAnomaly detect;
  const Tensor x = leaf({0, 1}, {2}), empty = leaf({}, {0});
  sum(sqrt(x)).backward();
  sum(sqrt(empty)).backward();
  EXPECT_EQ(test::read(x.grad())[1], 0.5);
}

TEST(DetectAnomaly, EndsWithItsScope) {
  const Tensor x = leaf({0, 1}, {2});
  { const autograd::DetectAnomaly detect; }
  EXPECT_NO_THROW(bad_loss(x).backward());
}

}  // namespace
}  // namespace binade
