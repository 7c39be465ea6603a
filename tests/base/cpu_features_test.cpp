#include "binade/base/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace binade {
namespace {

TEST(CpuFeatures, HigherFeaturesComeWithWhatTheyStandOn) {
  const CpuFeatures& f = cpu_features();
  EXPECT_LE(f.neon_bf16, f.neon);
  EXPECT_LE(f.avx512, f.avx2);
  EXPECT_LE(f.avx512_bf16, f.avx512);
  EXPECT_LE(f.amx_bf16, f.avx512);
#if defined(__aarch64__)
  EXPECT_TRUE(f.neon);
  EXPECT_FALSE(f.avx2);
#elif defined(__x86_64__)
  EXPECT_FALSE(f.neon);
#endif
}

TEST(CpuFeatures, NamesAreThoseOfTheFlags) {
  const CpuFeatures& f = cpu_features();
  const auto names = cpu_feature_names();
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  EXPECT_EQ(has("neon"), f.neon);
  EXPECT_EQ(has("neon-bf16"), f.neon_bf16);
  EXPECT_EQ(has("avx2"), f.avx2);
  EXPECT_EQ(has("avx512"), f.avx512);
  EXPECT_EQ(has("avx512-bf16"), f.avx512_bf16);
  EXPECT_EQ(has("amx-bf16"), f.amx_bf16);
}

}  // namespace
}  // namespace binade
