#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/launched_run.h"
#include "cli/ranks_run.h"
#include "support/paths.h"

// Training on many ranks: the files of one process, byte for byte.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class RanksMpi : public RanksRun {
 protected:
  void SetUp() override {
    RanksRun::SetUp();
    if (const std::string missing = missing_for_mpirun(); !missing.empty()) GTEST_SKIP() << missing;
  }
  std::string on_ranks(int ranks, const std::string& command) const override {
    return mpirun(ranks) + command;
  }

  static std::string mpirun(int ranks) {
    return "mpirun --allow-run-as-root --oversubscribe --bind-to none -n " + std::to_string(ranks) +
           " ";
  }
};

TEST_F(RanksMpi, WriteTheFilesOfOneProcess) {
  const struct {
    const char* options;
    int ranks;
  } cases[] = {
      {"--precision fp32", 3},
      {"--precision bf16 --params masters --moments bf16 --activations recompute", 2},
      {"--precision fp16 --scale-init 16777216 --stage 1", 3},  // overflows at first
      {"--recipe 'delayed, history = 3'", 2},
      {"--precision bf16 --reduce-dtype bf16", 3},
      {"--recipe nvfp4", 2},
      {"--recipe 'nvfp4, wgrad_hadamard = 32, random_signs = true, until = 0.7'", 3},
      {"--recipe mxfp8", 3},
      {"--precision fp32 --optimizer lion --freeze embedding --clip 0.1", 2},
      {"--precision bf16 --moments 8bit", 3},
      {"--precision bf16 --qat nvfp4 --tied-head false --qat-head", 3},
      {"--precision fp32 --qat q4_0 --stage 3 --activations recompute", 2},
      {"--precision bf16 --stage 3 --activations recompute", 3},
      {"--precision fp16 --scale-init 16777216 --stage 3 --params masters", 2},
      {"--recipe 'delayed, history = 3' --stage 3 --freeze blocks.0", 2},
      {"--recipe 'delayed, history = 3, head = true, hidden = true, skip_last = 1, exclude = "
       "[\"blocks.0.mlp.down\"]' --auto-precision",
       3}};
  for (const auto& [options, ranks] : cases) {
    SCOPED_TRACE(options);
    const fs::path alone = trained("alone", 1, ranks_run + std::string(options));
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    const fs::path run = trained("many", ranks, ranks_run + std::string(options));
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    EXPECT_EQ(outcome_.out, "");
    expect_same_files(run, alone, {"step-3", "step-6"});
    start_over();
  }
}

// A matrix of the blocks has one owner, whatever the number of ranks and the stage.
TEST_F(RanksMpi, MuonWritesTheFilesOfOneProcess) {
  for (const char* precision :
       {"--precision bf16 --params masters --moments 8bit ", "--recipe 'delayed, history = 3' "}) {
    for (const auto& [ranks, stage] : {std::pair(2, 1), {3, 2}, {5, 3}, {2, 3}, {5, 1}}) {
      SCOPED_TRACE(precision + std::to_string(ranks) + " ranks, stage " + std::to_string(stage));
      const std::string options = ranks_run + std::string("--optimizer muon ") + precision +
                                  "--stage " + std::to_string(stage);
      const fs::path alone = trained("alone", 1, options);
      ASSERT_EQ(outcome_.status, 0) << outcome_.err;
      const fs::path run = trained("many", ranks, options);
      ASSERT_EQ(outcome_.status, 0) << outcome_.err;
      expect_same_files(run, alone, {"step-3", "step-6"});
      if (ranks == 2) {
        fs::remove_all(run / "checkpoints" / "step-6");
        trained("many", 3, "train --resume --start-over --out run --quiet");
        ASSERT_EQ(outcome_.status, 0) << outcome_.err;
        expect_same_files(run, alone, {"step-6"});
      }
      fs::remove_all(folder_);
    }
  }
}

// A file of one's own in place of a built-in recipe: it trains, exports its plan, stops and resumes
// with the bits of a run that did not, on any number of ranks, and is not needed again.
TEST_F(RanksMpi, ARecipeOfOnesOwnIsAsGoodAsABuiltInOne) {
  const fs::path file = folder_ / "mine.toml";
  // Gradients that vanish in all layers but the last block's, which auto-precision must notice.
  std::ofstream(file) << R"(base = "delayed"
name = "mine"
skip_last = 1
exclude = ["blocks.0.mlp.up"]
[gradient]
format = "e4m3"
history = 4
margin = 40
[weight]
format = "e2m1"
group = [1, 16]
scale = "e4m3"
rule = "nvfp4"
source = "current"
)";
  const std::string options = changed(ranks_run, "--layer-stats", "1");
  const std::string recipe = "--recipe " + quoted(file.string() + ", input.history = 3") + " ";
  const fs::path alone = trained("alone", 1, options + recipe + "--auto-precision");
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  const std::string config = read(alone / "config.toml");
  EXPECT_THAT(config, HasSubstr("name = \\\"mine\\\""));
  EXPECT_THAT(config, HasSubstr("delayed, history = 3"));
  EXPECT_THAT(config, Not(HasSubstr("mine.toml")));
  const std::string plan = read(alone / "precision_plan.json");
  EXPECT_THAT(plan, HasSubstr("\"blocks.0.attention.out\""));
  EXPECT_THAT(plan, Not(HasSubstr("blocks.0.mlp.up"))) << "it is excluded";
  EXPECT_THAT(plan, Not(HasSubstr("blocks.1"))) << "it is skipped";
  const std::string planned =
      "--precision-plan " + quoted((alone / "precision_plan.json").string());
  const auto with_plan = metrics_of(trained("planned", 1, options + recipe + planned));
  EXPECT_EQ(outcome_.status, 0) << outcome_.err;
  EXPECT_NE(with_plan, metrics_of(alone)) << "moved layers count from the first step";

  const fs::path run = trained("many", 2, options + recipe + "--auto-precision");
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  expect_same_files(run, alone, {"step-3", "step-6"});
  EXPECT_EQ(read(run / "precision_plan.json"), plan);
  fs::remove(file);
  fs::remove_all(run / "checkpoints" / "step-6");
  trained("many", 3, "train --resume --start-over --out run --quiet");
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  expect_same_files(run, alone, {"step-6"});
  EXPECT_EQ(read(run / "precision_plan.json"), plan);
}

TEST_F(RanksMpi, ResumeACheckpointOfAnotherNumberOfRanks) {
  const std::string fp8 = ranks_run + std::string("--recipe 'delayed, history = 3' ");
  const fs::path alone = trained("alone", 1, fp8);
  for (const auto& [first, second] : {std::pair(2, 3), {3, 1}, {1, 2}}) {
    SCOPED_TRACE(std::to_string(first) + " then " + std::to_string(second));
    const fs::path run = trained("many", first, fp8);
    fs::remove_all(run / "checkpoints" / "step-6");
    trained("many", second, "train --resume --start-over --out run --quiet");
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    expect_same_files(run, alone, {"step-6"});
    fs::remove_all(run);
  }
}

// Stage 3 loads whole weights and keeps its parts of them.
TEST_F(RanksMpi, ResumeInStageThree) {
  const std::string options =
      ranks_run + std::string("--precision bf16 --params masters --stage 3 ");
  const fs::path alone = trained("alone", 1, options);
  for (const auto& [first, second] : {std::pair(2, 3), {1, 2}}) {
    SCOPED_TRACE(std::to_string(first) + " then " + std::to_string(second));
    const fs::path run = trained("many", first, options);
    fs::remove_all(run / "checkpoints" / "step-6");
    trained("many", second, "train --resume --start-over --out run --quiet");
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    expect_same_files(run, alone, {"step-6"});
    fs::remove_all(run);
  }
}

// The adapters alone are trained and shared; stage 3 shards those of the blocks.
TEST_F(RanksMpi, TrainAdapters) {
  const fs::path base = trained("base", 1, ranks_run);
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  const std::string options = ranks_run +
                              std::string("--precision bf16 --lora-rank 2 --init-from ") +
                              quoted(base.string()) + " ";
  const fs::path alone = trained("alone", 1, options);
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  const std::string bytes = read(alone / "checkpoints" / "step-6" / "adapter_model.safetensors");
  ASSERT_FALSE(bytes.empty());
  for (const char* stage : {"2", "3"}) {
    const fs::path run = trained("many", 2, options + "--stage " + stage);
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    EXPECT_TRUE(read(run / "checkpoints" / "step-6" / "adapter_model.safetensors") == bytes);
    // And from the middle, with the weights they adapt.
    fs::remove_all(run / "checkpoints" / "step-6");
    trained("many", 3, "train --resume --start-over --out run --quiet");
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    EXPECT_TRUE(read(run / "checkpoints" / "step-6" / "adapter_model.safetensors") == bytes);
    fs::remove_all(run);
  }
}

// At the peak of the steps, on rank 0, by the allocator's count.
TEST_F(RanksMpi, TakeTheMemoryOfThePlan) {
  const std::string options =
      "--device cpu --layers 4 --width 128 --heads 2 --context 64 --batch 1 --accumulate 4 "
      "--precision bf16 --params masters ";
  const auto plan = nlohmann::json::parse(binade("plan --json --ranks 2 " + options).out);
  const nlohmann::json memory = plan.at("ranks").at(1).at("memory");
  for (const int stage : {1, 2, 3}) {
    const fs::path run = trained("many", 2,
                                 "train " + options +
                                     "--steps 3 --eval-every 0 --sample 0 --quiet "
                                     "--checkpoint-every 0 --out run --data " +
                                     (test::source_dir() / "README.md").string() + " --stage " +
                                     std::to_string(stage));
    ASSERT_EQ(outcome_.status, 0) << outcome_.err;
    const double planned = memory.at(static_cast<size_t>(stage) - 1).get<double>();
    std::ifstream file(run / "metrics.jsonl");
    std::string line, last;
    while (std::getline(file, line)) last = line;
    EXPECT_NEAR(nlohmann::json::parse(last).at("memory").get<double>(), planned, 0.03 * planned)
        << "stage " << stage;
    fs::remove_all(run);
  }
}

// --dry-run and plan refuse what a run would refuse.
TEST_F(RanksMpi, RefuseOptimizersThatNeedWholeMatrices) {
  const std::string refusal =
      "optimizer: expected adamw, lion, nadam or muon on many ranks, found adafactor";
  trained("many", 2, ranks_run + std::string("--optimizer adafactor"));
  EXPECT_EQ(outcome_.status, 2);
  EXPECT_THAT(outcome_.err, HasSubstr(refusal));
  trained("many", 2, ranks_run + std::string("--optimizer adafactor --dry-run"));
  EXPECT_EQ(outcome_.status, 2);
  EXPECT_THAT(outcome_.err, HasSubstr(refusal));
  EXPECT_THAT(binade("plan --ranks 2 --device cpu --accumulate 2 --optimizer adafactor").err,
              HasSubstr(refusal));
  trained("many", 2, changed(ranks_run, "--accumulate", "1") + "--dry-run");
  EXPECT_THAT(outcome_.err, HasSubstr("at least one for each of 2 ranks, found 1"));
}

// PMIx as srun --mpi=pmix offers it, but from nobody.
TEST_F(RanksMpi, RefuseProcessesThatMpiDoesNotConnect) {
  const Outcome srun =
      run_shell("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 PMIX_RANK=0 " +
                std::string(BINADE_EXECUTABLE) + " " + ranks_run);
  EXPECT_NE(srun.status, 0) << srun.err;
}

TEST_F(RanksMpi, ShowHowMuchTheyWait) {
  std::string options = ranks_run;
  options.erase(options.find("--quiet "), 8);
  const fs::path run = trained("many", 2, options + "--log-every 1");
  ASSERT_EQ(outcome_.status, 0) << outcome_.err;
  EXPECT_THAT(outcome_.out, ::testing::ContainsRegex(
                                "tok/s.*2 ranks wait [0-9]+%|tok/s.*2 ranks, [0-9]+% waiting"));
  EXPECT_THAT(read(run / "report.html"), HasSubstr("<h2>Ranks</h2>"));
  // At the end, from the rank that waited least to the one that waited most.
  double low = 1, high = 0;
  const auto summary = nlohmann::json::parse(read(run / "summary.json"));
  for (const auto& rank : summary.at("ranks")) {
    const double waiting = rank.at("waited").get<double>() / rank.at("seconds").get<double>();
    low = std::min(low, waiting);
    high = std::max(high, waiting);
  }
  EXPECT_THAT(outcome_.out,
              HasSubstr(fmt::format("2 ranks waited for each other {:.0f}% to {:.0f}% of the time",
                                    100 * low, 100 * high)));
}

TEST_F(RanksMpi, RefuseFewerMicroBatchesThanRanks) {
  trained("many", 2, changed(ranks_run, "--accumulate", "1"));
  EXPECT_EQ(outcome_.status, 2);
  EXPECT_THAT(outcome_.err, HasSubstr("rank 0: ranks: micro-batches of a step: expected at least "
                                      "one for each of 2 ranks, found 1; --accumulate 2"));
  EXPECT_THAT(outcome_.err, Not(HasSubstr("rank 1:")));
}

TEST_F(RanksMpi, RefuseAnotherConfigurationOnOneRank) {
  // One program that looks at its rank: mpirun of Open MPI 5.0.7 crashes if it starts two.
  const std::string program = std::string("exec ") + BINADE_EXECUTABLE + " " + ranks_run +
                              "--lr 0.00$((1 + OMPI_COMM_WORLD_RANK))";
  const Outcome outcome = run_shell("cd " + quoted(folder_.string()) + " && BINADE_THREADS=1 " +
                                    mpirun(2) + " sh -c " + quoted(program));
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("configuration of rank 1: expected that of rank 0, lr = "
                                     "0.001, found lr = 0.002"));
}

// Kills one of the ranks that `launch` started, once there is a checkpoint, and waits for the rest.
constexpr const char* kill_a_rank = R"(
launch=$!
until ls run/checkpoints/step-* > /dev/null 2>&1; do kill -0 $launch || exit 9; sleep 0.02; done
mpirun=$(pgrep -P $launch)
kill -9 $(pgrep -P $mpirun | tail -n 1)
wait $launch)";

TEST_F(RanksMpi, LaunchStartsAgainAfterTheDeathOfARank) {
  const std::string options =
      changed(changed(ranks_run, "--steps", "60"), "--checkpoint-every", "5") +
      "--recipe 'delayed, history = 3' ";
  const fs::path alone = trained("alone", 1, options);
  const fs::path where = folder_ / "many";
  fs::create_directories(where);
  const Outcome outcome =
      run_shell("cd " + quoted(where.string()) + " || exit 9\nBINADE_THREADS=1 " +
                BINADE_EXECUTABLE " launch -n 2 --restarts 3 " + options + " &" + kill_a_rank);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("starting again from step"));
  expect_same_files(where / "run", alone, {"step-60"});
}

TEST_F(RanksMpi, LaunchPassesTheExitCodeOn) {
  const Outcome bad = binade("launch -n 2 train --layers 0");
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("layers"));
  EXPECT_THAT(binade("launch -n 2 eval").err,
              HasSubstr("expected train or reproduce, and its options"));
  EXPECT_THAT(binade("launch -n 2 --restarts 1 train").err, HasSubstr("expected --out FOLDER"));
}

TEST_F(RanksMpi, ReproduceARunOfOneProcess) {
  const fs::path run = trained("alone", 1, std::string(ranks_run) + "--precision bf16 ");
  const std::string manifest = quoted((folder_ / "manifest.json").string());
  const std::string out = " --out " + quoted((folder_ / "again").string());
  ASSERT_EQ(binade("reproduce " + quoted(run.string()) + " --write " + manifest).status, 0);
  const Outcome again = binade("launch -n 2 reproduce " + manifest + out);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("2 ranks waited"));
  EXPECT_THAT(again.out, HasSubstr("verified: "));
  EXPECT_EQ(binade("launch -n 2 reproduce " + manifest + " --audit 1 --run x").status, 2);
  EXPECT_EQ(binade("launch -n 2 --restarts 1 reproduce " + manifest + out).status, 2);
}

// One rank gets the signal, the first or the last; all save and end.
TEST_F(RanksMpi, ASignalToOneRankStopsAll) {
  const std::string options = changed(ranks_run, "--steps", "100000") + "--precision fp32 ";
  for (const char* which : {"head", "tail"}) {
    const fs::path where = folder_ / which;
    fs::create_directories(where);
    const Outcome outcome =
        run_shell("cd " + quoted(where.string()) + " || exit 9\nBINADE_THREADS=1 " + mpirun(2) +
                  BINADE_EXECUTABLE " " + options + R"( & mpirun=$!
until ls run/checkpoints/step-* > /dev/null 2>&1; do kill -0 $mpirun || exit 9; sleep 0.02; done
kill -TERM $(pgrep -P $mpirun | )" +
                  which + R"( -n 1)
wait $mpirun)");
    EXPECT_EQ(outcome.status, 128 + 15) << which << ": " << outcome.err;
    EXPECT_FALSE(read(where / "run" / "report.html").empty());
  }
}

}  // namespace
}  // namespace binade::cli
