#include "binade/ranks/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/backend/gpu.h"
#include "binade/base/error.h"
#include "ranks/mpirun.h"

namespace binade::ranks {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Communicator, OfOneProcessReturnsWhatItIsGiven) {
  const auto alone = single();
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(alone->all_gather_text("names", "a"), std::vector<std::string>{"a"});
  EXPECT_EQ(alone->broadcast_text("name", "b"), "b");
  EXPECT_EQ(alone->traffic().bytes_sent, 0);
}

TEST(Communicator, CountsAndNamesItsCollectives) {
  const auto one = single(), other = single();
  one->set_phase("step 3");
  one->broadcast_text("x", "y");
  EXPECT_EQ(one->last().number, 2);
  EXPECT_EQ(one->last().name, "x");
  EXPECT_EQ(one->last().phase, "step 3");
  other->broadcast_text("z", "y");
  EXPECT_NE(one->history(), other->history());
}

TEST(Communicator, RefusesSizesThatDoNotFit) {
  const auto alone = single();
  std::byte two[2] = {};
  EXPECT_THROW(alone->all_gather("x", two, two, std::vector<int64_t>{1}), Error);
  EXPECT_THROW(alone->all_gather("x", two, two, std::vector<int64_t>{1, 1}), Error);
}

class FaultsMpi : public MpiTest {};

TEST_F(FaultsMpi, ARankThatHangsIsNamed) {
  const cli::Outcome outcome = on_ranks(3, "fault hangs");
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("waiting for rank 2 in step 12, second, silent for"));
}

TEST_F(FaultsMpi, AnotherCollectiveIsNamed) {
  const cli::Outcome outcome = on_ranks(2, "fault other");
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("out of step"));
  EXPECT_THAT(outcome.err, HasSubstr("something else"));
  EXPECT_THAT(outcome.err, HasSubstr("second (8 bytes"));
}

TEST_F(FaultsMpi, AnErrorOfOneRankEndsAllWithItsMessage) {
  const cli::Outcome outcome = on_ranks(3, "fault throws");
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("binade: rank 2: no more disk"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("rank 1:")));
}

TEST_F(FaultsMpi, AFactThatDiffersIsRefused) {
  EXPECT_THAT(on_ranks(3, "fault differs").err,
              HasSubstr("version of rank 2: expected that of rank 0, 1, found 2"));
}

TEST_F(FaultsMpi, AFailureOfOneRankIsReportedByRank0) {
  EXPECT_THAT(on_ranks(3, "fault fails").err, HasSubstr("rank 0: rank 2: data: train.bin"));
  // The same failure on all ranks is not about one of them.
  EXPECT_THAT(on_ranks(3, "fault fails_alike").err, HasSubstr("binade: rank 0: data: train.bin"));
}

// mpirun starts them, but they are told of more.
TEST_F(FaultsMpi, MissingPeersAreAnError) {
  const cli::Outcome outcome = cli::run_shell("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 " +
                                              std::string(BINADE_RANKS_PROGRAM) + " fold");
  EXPECT_NE(outcome.status, 0);
  EXPECT_EQ(outcome.out, "");
  const cli::Outcome torchrun =
      cli::run_shell("RANK=0 WORLD_SIZE=2 " + std::string(BINADE_RANKS_PROGRAM) + " fold");
  if (backend::gpus().empty() || nccl_version().empty())
    EXPECT_THAT(torchrun.err, HasSubstr("torchrun starts processes without MPI"));
  else
    EXPECT_THAT(torchrun.err, HasSubstr("MASTER_PORT"));
}

}  // namespace
}  // namespace binade::ranks
