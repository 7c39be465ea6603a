#include "binade/autograd/recompute.h"

#include <gtest/gtest.h>

#include <thread>

#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/recompute.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade::autograd {
namespace {

TEST(Recompute, IsOnOnlyInsideItsScope) {
  EXPECT_FALSE(recomputing());
  {
    const RecomputeScope outer;
    {
      const RecomputeScope inner;
      EXPECT_TRUE(recomputing());
    }
    EXPECT_TRUE(recomputing());
    std::thread([] { EXPECT_FALSE(recomputing()); }).join();
  }
  EXPECT_FALSE(recomputing());
}

TEST(Recompute, IsWhatTheSecondForwardOfACheckpointSees) {
  std::vector<bool> seen;
  const Tensor x = test::leaf({1, 2}, {2});
  const Tensor y = checkpoint(
      [&](std::span<const Tensor> in) {
        seen.push_back(recomputing());
        return in[0] * in[0];
      },
      {x});
  sum(y).backward();
  EXPECT_EQ(seen, (std::vector<bool>{false, true}));
  EXPECT_FALSE(recomputing());
}

}  // namespace
}  // namespace binade::autograd
