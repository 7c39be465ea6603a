#include "binade/ranks/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "ranks/mpirun.h"
#include "support/rank_variables.h"

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
}

// The same scenarios over TCP.
cli::Outcome by_variables(int ranks, const std::string& scenario) {
  return cli::run_shell(
      "export BINADE_THREADS=1; " +
      test::on_ranks_by_variables(ranks, std::string(BINADE_RANKS_PROGRAM) + " " + scenario));
}

TEST(FaultsTcp, EndAllRanksWithOneMessage) {
  const struct {
    int ranks;
    const char* scenario;
    int status;
    std::vector<const char*> expected;
  } cases[] = {
      {3, "hangs", 2, {"binade: rank 0: waiting for rank 2 in step 12, second, silent for"}},
      {2, "other", 2, {"out of step", "second (8 bytes", "something else"}},
      {3, "throws", 2, {"binade: rank 2: no more disk"}},
      {3, "dies", 137, {"binade: rank 0: lost rank 2 in step 12, second: its process has ended"}},
      {3, "leaves", 137, {"binade: rank 0: lost rank 2 in step 12, second: it has ended"}},
      {3, "differs", 2, {"version of rank 2: expected that of rank 0, 1, found 2"}},
      {3, "fails", 2, {"rank 0: rank 2: data: train.bin"}},
      {3, "fails_alike", 2, {"binade: rank 0: data: train.bin"}}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.scenario);
    const cli::Outcome outcome = by_variables(one.ranks, std::string("fault ") + one.scenario);
    EXPECT_EQ(outcome.status, one.status) << outcome.err;
    for (const char* text : one.expected) EXPECT_THAT(outcome.err, HasSubstr(text));
    // A rank that waits says so once before it ends all.
    const std::string message = "binade: rank ";
    size_t messages = 0;
    for (size_t at = 0; (at = outcome.err.find(message, at)) != std::string::npos; ++at) ++messages;
    EXPECT_EQ(messages, std::string(one.scenario) == "hangs" ? 2u : 1u) << outcome.err;
  }
}

TEST(SumsTcp, AreThoseOfOneProcess) {
  for (const int ranks : {2, 3, 5})
    EXPECT_EQ(by_variables(ranks, "fold").out, "0 wrong of 56391\n") << ranks;
  EXPECT_EQ(by_variables(3, "fold16").out, "0 wrong of 56391\n");
  EXPECT_EQ(by_variables(3, "fold_any").out, "0 wrong of 56391\n");
}

TEST(SumsTcp, StepsHaveTheSameBitsOnAnyNumberOfRanks) {
  const std::string alone = by_variables(1, "stage2").out;
  EXPECT_THAT(alone, HasSubstr("0x"));
  for (const int ranks : {2, 3, 5}) EXPECT_EQ(by_variables(ranks, "stage2").out, alone) << ranks;
  EXPECT_EQ(by_variables(3, "language 3 bf16 plain").out,
            by_variables(1, "language 1 bf16 plain").out);
}

// What every rank says counts, and rank 0's word reaches all.
TEST(SumsTcp, EveryRanksWordCounts) {
  EXPECT_THAT(by_variables(3, "agreement 1").out,
              HasSubstr("stop 15 inf 1 losses 10 11 12 maxima"));
}

}  // namespace
}  // namespace binade::ranks
