#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/ranks_run.h"
#include "support/rank_variables.h"

// Ranks without MPI: told of each other by environment variables, or started by `binade launch`
// where there is no mpirun.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RanksTcp : public RanksRun {
 protected:
  std::string on_ranks(int ranks, const std::string& command) const override {
    return test::on_ranks_by_variables(ranks, command);
  }
};

TEST_F(RanksTcp, WriteTheFilesOfOneProcess) {
  const struct {
    const char* options;
    int ranks;
  } cases[] = {{"--precision fp32", 3},
               {"--precision fp16 --scale-init 16777216 --stage 1", 2},  // overflows at first
               {"--recipe 'delayed, history = 3' --stage 3", 2},
               {"--precision bf16 --reduce-dtype bf16 --params masters", 5}};
  for (const auto& [options, ranks] : cases) {
    SCOPED_TRACE(options);
    const fs::path alone = trained("alone", 1, ranks_run + std::string(options));
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    const fs::path run = trained("many", ranks, ranks_run + std::string(options));
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    EXPECT_EQ(outcome_.out, "");
    EXPECT_EQ(outcome_.err, "");
    expect_same_files(run, alone, {"step-3", "step-6"});
    start_over();
  }
}

// Every rank computes the reference of some pairs, and has that of all.
TEST_F(RanksTcp, TrainOnPairsAsOneProcess) {
  const fs::path base = trained("base", 1, ranks_run + "--precision fp32");
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  const fs::path pairs = folder_ / "pairs.jsonl";
  std::ofstream lines(pairs);
  for (int i = 0; i < 19; ++i)
    lines << R"({"prompt": "p", "chosen": "y)" << std::string(i % 4, 's') << R"(", "rejected": "n)"
          << i << "\"}\n";
  lines.close();
  const std::string options =
      "train --device cpu --objective dpo --init-from " + quoted(base.string()) + " --data " +
      quoted(pairs.string()) +
      " --batch 2 --accumulate 3 --steps 6 --eval-every 3 --eval-batches 3 --checkpoint-every 3 "
      "--layer-stats 3 --hash-every 2 --sample 0 --quiet --out run ";
  const fs::path alone = trained("alone", 1, options + "--precision bf16");
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  EXPECT_EQ(metrics_of(alone).size(), 7u);
  EXPECT_TRUE(metrics_of(alone)[6].contains("preferences"));
  for (const int ranks : {2, 3}) {
    const fs::path run = trained(std::to_string(ranks), ranks,
                                 options + "--precision bf16 --stage " + std::to_string(ranks));
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    EXPECT_EQ(metrics_of(run), metrics_of(alone)) << ranks;
    for (const char* file : {"model.safetensors", "trainer.safetensors"})
      EXPECT_TRUE(read(run / "checkpoints/step-6" / file) ==
                  read(alone / "checkpoints/step-6" / file))
          << ranks << " " << file;
  }
}

TEST_F(RanksTcp, ReportBadInputOnce) {
  trained("many", 3, changed(ranks_run, "--accumulate", "2"));
  EXPECT_EQ(outcome_.status, 2);
  EXPECT_THAT(outcome_.err, HasSubstr("rank 0: ranks: micro-batches of a step: expected at least "
                                      "one for each of 3 ranks, found 2; --accumulate 3"));
  EXPECT_THAT(outcome_.err, Not(AnyOf(HasSubstr("rank 1:"), HasSubstr("rank 2:"))));
}

TEST_F(RanksTcp, RefuseAnotherConfigurationOnOneRank) {
  trained("many", 2, ranks_run + std::string("--lr 0.00$((1 + rank))"));
  EXPECT_EQ(outcome_.status, 2) << outcome_.err;
  EXPECT_THAT(outcome_.err, HasSubstr("configuration of rank 1: expected that of rank 0, lr = "
                                      "0.001, found lr = 0.002"));
}

TEST_F(RanksTcp, RefuseVariablesThatAreNotComplete) {
  const std::string run = std::string(BINADE_EXECUTABLE) + " " + ranks_run;
  const Outcome place = run_shell("RANK=0 WORLD_SIZE=2 " + run);
  EXPECT_EQ(place.status, 2);
  EXPECT_THAT(place.err, HasSubstr("MASTER_ADDR: expected the name or address of rank 0's machine, "
                                   "found none"));
  const Outcome rank = run_shell("RANK=2 WORLD_SIZE=2 " + run);
  EXPECT_EQ(rank.status, 2);
  EXPECT_THAT(rank.err, HasSubstr("RANK: expected 0 to 1, found '2'"));
}

// All end, with the code of a killed rank and its number.
TEST_F(RanksTcp, NameARankThatWasKilled) {
  const Outcome outcome = run_shell(
      "cd " + quoted(folder_.string()) + " || exit 9\nexport BINADE_THREADS=1\n" +
      on_ranks(3, "sh -c " + quoted("echo $$ > pid$RANK; exec " + std::string(BINADE_EXECUTABLE) +
                                    " " + changed(ranks_run, "--steps", "100000"))) +
      R"( & all=$!
until ls run/checkpoints/step-* > /dev/null 2>&1; do kill -0 $all || exit 9; sleep 0.02; done
kill -9 $(cat pid1)
wait $all)");
  EXPECT_EQ(outcome.status, 137) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("binade: rank 0: lost rank 1 in "));
  EXPECT_THAT(outcome.err, HasSubstr("its process has ended"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("binade: rank 2:")));
}

// A launch without mpirun on the PATH, which kills nothing of its own: one rank is killed.
TEST_F(RanksTcp, LaunchStartsAgainAfterTheDeathOfARank) {
  const std::string options =
      changed(changed(ranks_run, "--steps", "60"), "--checkpoint-every", "5") +
      "--recipe 'delayed, history = 3' ";
  const fs::path alone = trained("alone", 1, options);
  const fs::path where = folder_ / "many";
  fs::create_directories(where);
  const Outcome outcome =
      run_shell("cd " + quoted(where.string()) + " || exit 9\nBINADE_THREADS=1 PATH=/nowhere " +
                BINADE_EXECUTABLE " launch -n 2 --restarts 3 " + options + R"(&
launch=$!
until ls run/checkpoints/step-* > /dev/null 2>&1; do kill -0 $launch || exit 9; sleep 0.02; done
kill -9 $(pgrep -P $(pgrep -P $launch) | tail -n 1)
wait $launch)");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the ranks ended with 137; starting again from step"));
  expect_same_files(where / "run", alone, {"step-60"});
}

}  // namespace
}  // namespace binade::cli
