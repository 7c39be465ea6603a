#include "binade/autograd/grad_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade {
namespace {

using test::leaf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(GradMode, NoGradRecordsNothing) {
  const Tensor x = leaf({2}, {1});
  {
    const NoGrad outer;
    EXPECT_FALSE(autograd::grad_enabled());
    EXPECT_FALSE((x * x).requires_grad());
    {
      const autograd::EnableGrad on;
      EXPECT_TRUE((x * x).requires_grad());
    }
    EXPECT_FALSE(autograd::grad_enabled());
    std::thread([] { EXPECT_TRUE(autograd::grad_enabled()); }).join();
  }
  EXPECT_TRUE((x * x).requires_grad());
}

TEST(GradMode, SetGradEnabledLastsUntilTheScopeAroundItEnds) {
  {
    const NoGrad outer;
    autograd::set_grad_enabled(true);
    EXPECT_TRUE(autograd::grad_enabled());
    autograd::set_grad_enabled(false);
  }
  EXPECT_TRUE(autograd::grad_enabled());
}

TEST(GradMode, NoGradAllowsInPlaceChangesOfLeaves) {
  const Tensor x = leaf({2, 3}, {2});
  EXPECT_THAT(test::error_of([&] { fill_(x, 1); }),
              HasSubstr("fill_: x: expected no leaf that requires a gradient"));
  const NoGrad plain;
  fill_(x, 1);
  EXPECT_THAT(test::read(x), ElementsAre(1, 1));
}

}  // namespace
}  // namespace binade
