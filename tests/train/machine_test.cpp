#include "binade/train/machine.h"

#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/amp/capability.h"

namespace binade::train {
namespace {

// A CPU of the last twenty years multiplies faster than this.
constexpr double slow = 1e8;

TEST(Machine, MatmulRateIsMeasuredOncePerPrecision) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const double rate = matmul_rate(Device::cpu(), precision);
    EXPECT_GT(rate, slow);
    EXPECT_EQ(matmul_rate(Device::cpu(), precision), rate);
  }
}

TEST(Machine, EmulatedFp8RunsAtTheRateOfBf16) {
  if (amp::matmul_support(DType::e4m3, Device::cpu()) == amp::Support::native)
    GTEST_SKIP() << "FP8 is native here";
  EXPECT_EQ(matmul_rate(Device::cpu(), Precision::quantized),
            matmul_rate(Device::cpu(), Precision::bf16));
}

TEST(Machine, MeasuringLeavesTheMatmulPrecisionAlone) {
  for (const auto before : {amp::MatmulPrecision::high, amp::MatmulPrecision::highest}) {
    const amp::MatmulPrecisionGuard guard(before);
    linear_rate(Device::cpu(), Precision::tf32, amp::recipes::delayed(), {8, 8, 8});
    linear_rate(Device::cpu(), Precision::fp32, amp::recipes::delayed(), {8, 8, 8});
    EXPECT_EQ(amp::matmul_precision(), before);
  }
}

TEST(Machine, RatesOfLayersArePositive) {
  for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::quantized}) {
    for (const amp::Recipe& recipe : {amp::recipes::delayed(), amp::recipes::mx()})
      EXPECT_GT(linear_rate(Device::cpu(), precision, recipe, {16, 32, 64}), 0);
  }
  EXPECT_EQ(
      weight_cast_seconds(Device::cpu(), Precision::fp32, amp::recipes::delayed(), {16, 32, 64}),
      0);
  // Far more than noise: a thousand casts of a matrix for sixteen rows.
  // Other tests may take the cores away from one of its two measurements, but not five times.
  double seconds = 0;
  for (int i = 0; i < 5 && seconds == 0; ++i)
    seconds = weight_cast_seconds(Device::cpu(), Precision::quantized, amp::recipes::delayed(),
                                  {16, 2048, 2048});
  EXPECT_GT(seconds, 0);
  EXPECT_GT(norm_bandwidth(Device::cpu(), 64, 128), slow);
}

TEST(Machine, PeaksAreKnownForRealDevicesOnly) {
  EXPECT_EQ(instruction_peak(Device::meta(), Precision::bf16), 0);
  EXPECT_EQ(instruction_peak(Device::cuda(99), Precision::bf16), 0);
  EXPECT_EQ(gpu_name(Device::cuda(99)), "");
  EXPECT_EQ(gpu_name(Device::cpu()), "");
}

}  // namespace
}  // namespace binade::train
