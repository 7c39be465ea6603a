#include "binade/ranks/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/backend/gpu.h"
#include "binade/base/error.h"
#include "ranks/mpirun.h"
#include "support/error_of.h"

// Ranks that share one GPU, which NCCL takes for those of several machines: slow, but the same
// collectives.
namespace binade::ranks {
namespace {

using ::testing::HasSubstr;

TEST(Nccl, IsRefusedWithAWordIfTheBuildHasNone) {
  if (!nccl_version().empty()) GTEST_SKIP() << "this build has NCCL";
  EXPECT_THAT(test::error_of([] { on_device(simulated(0, 2), Device::cuda()); }),
              HasSubstr("a build with NCCL"));
  const auto alone = single();
  EXPECT_EQ(on_device(alone, Device::cpu()), alone);
}

class NcclGpu : public MpiTest {
 protected:
  void SetUp() override {
    MpiTest::SetUp();
    if (nccl_version().empty()) GTEST_SKIP() << "this build has no NCCL";
    if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }

  static std::string on_gpu(int ranks, const std::string& scenario) {
    const std::string program = std::string(BINADE_RANKS_PROGRAM) + " " + scenario + " cuda";
    if (ranks == 1) return cli::run_shell(program).out;
    return cli::run_shell("NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 " + mpirun(ranks) +
                          "sh -c 'NCCL_HOSTID=host$OMPI_COMM_WORLD_RANK exec " + program + "'")
        .out;
  }
};

TEST_F(NcclGpu, FoldAddsInTheOrderOfMicroBatches) {
  for (const int ranks : {1, 2}) {
    EXPECT_EQ(on_gpu(ranks, "fold"), "0 wrong of 56391\n") << ranks;
    EXPECT_EQ(on_gpu(ranks, "fold16"), "0 wrong of 56391\n") << ranks;
    EXPECT_EQ(on_gpu(ranks, "fold_any"), "0 wrong of 56391\n") << ranks;
  }
}

TEST_F(NcclGpu, StepsHaveTheSameBitsOnOneAndTwoRanks) {
  const std::string alone = on_gpu(1, "stage2");
  EXPECT_THAT(alone, HasSubstr(" 0 0x")) << "no step overflowed";
  EXPECT_THAT(alone, HasSubstr(" 1 0x")) << "no step was applied";
  EXPECT_EQ(on_gpu(2, "stage1"), alone);
  EXPECT_EQ(on_gpu(2, "stage2"), alone);
}

}  // namespace
}  // namespace binade::ranks
