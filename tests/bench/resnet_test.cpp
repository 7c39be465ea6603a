#include "binade/bench/resnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "binade/base/error.h"
#include "support/error_of.h"

namespace binade::bench {
namespace {

using ::testing::HasSubstr;

// torchvision states 4.089 billion multiply-adds for the forward of ResNet-50 and 1.814 for that of
// ResNet-18 at 224 x 224. A step has three times as many, less the 118,013,952 of the images'
// gradient.
TEST(ResNetBench, CountsOperations) {
  for (const auto& [depth, forward] : {std::pair(50, 4.089e9), std::pair(18, 1.814e9)}) {
    const double rounding = 0.5e6;  // of the stated numbers
    EXPECT_NEAR(flops_per_image({.depth = depth}), 2 * (3 * forward - 118'013'952),
                2 * 3 * rounding)
        << depth;
  }
}

TEST(ResNetBench, RefusesPrecisionsWithoutConvolutions) {
  EXPECT_THAT(test::error_of([] { bench_resnet({}, train::Precision::quantized); }),
              HasSubstr("fp32, bf16 or fp16"));
}

}  // namespace
}  // namespace binade::bench
