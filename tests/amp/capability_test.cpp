#include "binade/amp/capability.h"

#include <gtest/gtest.h>

#include "binade/base/cpu_features.h"

namespace binade::amp {
namespace {

TEST(Capability, TheCpuRunsEveryTypeSomehow) {
  const Device cpu = Device::cpu();
  EXPECT_TRUE(is_bf16_supported(cpu) && is_f16_supported(cpu) && is_fp8_supported(cpu));
  EXPECT_FALSE(is_fp8_supported(cpu, false));
  const CpuFeatures& features = cpu_features();
  EXPECT_EQ(is_bf16_supported(cpu, false),
            features.neon_bf16 || features.avx512_bf16 || features.amx_bf16);
  EXPECT_EQ(matmul_support(DType::f32, cpu), Support::native);
  EXPECT_EQ(matmul_support(DType::i64, cpu), Support::none);
}

TEST(Capability, MetaComputesNothing) { EXPECT_FALSE(is_bf16_supported(Device::meta())); }

}  // namespace
}  // namespace binade::amp
