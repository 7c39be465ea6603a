#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "io/temporary_folder.h"
#include "support/paths.h"

namespace binade::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A run of well under a second.
const std::string small_run =
    " --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --sample 8 --threads "
    "1 ";

TEST(CliTrain, BadInputIsOneMessageAndExitCodeTwo) {
  const std::pair<const char*, const char*> cases[] = {
      {"train --stpes 3", "did you mean --steps?"},
      {"train --lr nan", "--lr: expected a number from 0 to 100, found nan"},
      {"train --heads 7", "a divisor of the width"},
      {"train no-such.toml", "no-such.toml"},
      {"train --data no-such-file", "no-such-file"},
      {"train --resume", "--out"},
#ifndef BINADE_CUDA
      {"train --device cuda", "this build has no CUDA backend"},
      {"compare --device cuda", "this build has no CUDA backend"},
      {"plan --device cuda", "this build has no CUDA backend"},
#endif
      {"train --resume --out no-such-run", "no-such-run"},
      {"train --steps 1 --out /dev/null/run", "/dev/null/run"},
      {"generate no-such-run", "no-such-run"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = binade(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty()) << arguments;
  }
}

TEST(CliTrain, TrainsGeneratesAndResumes) {
  const testing::TemporaryFolder folder;
  const std::string out = quoted((folder / "run").string());
  const Outcome trained = binade("train --steps 4 --log-every 2 --out " + out + small_run);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("step 2/4"));
  EXPECT_THAT(trained.out, HasSubstr("report: "));
  EXPECT_THAT(trained.out, ::testing::Not(HasSubstr("\r")));
  const Outcome text = binade("generate " + out + " --tokens 5 --prompt abc");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, ::testing::StartsWith("abc"));
  EXPECT_EQ(text.out, binade("generate " + out + " --tokens 5 --prompt abc").out);
  const Outcome more = binade("train --resume --steps 6 --out " + out);
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_THAT(more.out, HasSubstr("resuming at step 4"));
}

// A loss scale far too low: every gradient underflows. The cure that was printed is applied by the
// command that was printed.
TEST(CliTrain, StartsARunWithTheCureOfAnother) {
  const testing::TemporaryFolder folder;
  const std::string sick = quoted((folder / "sick").string()),
                    cured = quoted((folder / "cured").string());
  std::string squares;
  for (int i = 0; i < 2000; ++i) squares += std::to_string(i * i) + " ";
  const std::string data = " --data " + quoted(folder.put("squares.txt", squares).string());
  const Outcome trained =
      binade("train --precision fp16 --scale-init 1e-6 --steps 4 --out " + sick + small_run + data);
  EXPECT_THAT(trained.out, HasSubstr("cure, replayed with success on 9 of 9 batches"));
  EXPECT_THAT(trained.out, HasSubstr("binade train --cure " + (folder / "sick").string()));
  const std::string cure = testing::content_of(folder / "sick/cure.toml");
  EXPECT_THAT(cure, HasSubstr("[precision]\nscale_init = "));
  const Outcome outcome = binade("train --cure " + sick + " --out " + cured);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(
      testing::content_of(folder / "cured/config.toml"),
      HasSubstr(cure.substr(cure.find("scale_init"), cure.size() - cure.find("scale_init") - 1)));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("verdict")));
  // Options override it, and CONFIG takes the place of the run's settings.
  const Outcome dry =
      binade("train --cure " + sick + " --scale-init 64 --dry-run --out " + cured + "2");
  EXPECT_THAT(dry.out, HasSubstr("scale_init = 64"));
  EXPECT_THAT(dry.out, HasSubstr("width = 16"));
  const std::string own =
      quoted(folder.put("own.toml", "[model]\nwidth = 32\nheads = 2\n").string());
  const Outcome other =
      binade("train " + own + " --cure " + sick + " --dry-run --out " + cured + "3");
  EXPECT_THAT(other.out, HasSubstr("width = 32"));
}

TEST(CliTrain, RefusesACureThatIsNone) {
  const testing::TemporaryFolder folder;
  const std::string run = quoted((folder / "run").string());
  ASSERT_EQ(binade("train --steps 1 --quiet --out " + run + small_run).status, 0);
  const std::pair<std::string, const char*> cases[] = {
      {"train --cure " + run, "expected cure.toml in the run's folder, found none"},
      {"train --cure no-such-run", "no-such-run"},
      {"train --resume --cure " + run, "expected a new run, found --resume"}};
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = binade(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
  }
}

TEST(CliTrain, JsonIsOneDocumentALine) {
  const testing::TemporaryFolder folder;
  const Outcome outcome =
      binade("train --json --steps 3 --out " + quoted((folder / "run").string()) + small_run);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) last = nlohmann::json::parse(line);
  EXPECT_EQ(last.at("steps"), 3);
  EXPECT_THAT(
      binade("train --quiet --steps 1 --out " + quoted((folder / "quiet").string()) + small_run)
          .out,
      IsEmpty());
}

TEST(CliTrain, AnInterruptSavesAndSaysHowToGoOn) {
  const testing::TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  // The shell waits for the first line of the log, then interrupts.
  const Outcome outcome = run_shell(
      quoted(BINADE_EXECUTABLE) + " train --steps 1000000 --out " + quoted(out) + small_run +
      " > " + quoted(out + ".log") + " & pid=$!; until grep -qs 'step 1/' " + quoted(out + ".log") +
      "; do kill -0 $pid || exit 1; done; kill -INT $pid; wait $pid; code=$?; cat " +
      quoted(out + ".log") + "; exit $code");
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("binade train --resume --out " + out));
  EXPECT_THAT(outcome.out, HasSubstr("checkpoint: "));
}

TEST(CliTrain, ShowsSamplesAndClosingHints) {
  const testing::TemporaryFolder folder;
  const std::string out = (folder / "my run").string();
  const Outcome outcome = binade("train --steps 4 --eval-every 2 --out " + quoted(out) + small_run);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(" -> "));
  EXPECT_THAT(outcome.out, HasSubstr("nats per byte"));
  EXPECT_THAT(outcome.out, HasSubstr(" generate '" + out + "'\n"));
  EXPECT_THAT(outcome.out, HasSubstr(" export '" + out + "' model-hf"));
  // After steps 0 and 2, two lines each; the closing sample follows step 4.
  std::istringstream lines(outcome.out);
  int indented = 0;
  for (std::string line; std::getline(lines, line) && !line.starts_with("a sample");)
    indented += line.starts_with("  ") ? 1 : 0;
  EXPECT_EQ(indented, 4) << outcome.out;
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("\x1b"))) << "no colors in a file";
}

TEST(CliTrain, WarnsOnStderr) {
  const testing::TemporaryFolder folder;
  const Outcome outcome = binade("train --quiet --model gpt2 --rope-theta 5 --steps 1 --out " +
                                 quoted((folder / "run").string()) + small_run);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_EQ(outcome.err, "binade: warning: --rope-theta has no effect without --model llama\n");
}

TEST(CliTrain, ARunThatDivergesSaysSoAndEndsWithThree) {
  const testing::TemporaryFolder folder;
  const std::string out = quoted((folder / "run").string());
  const Outcome diverged =
      binade("train --steps 12 --warmup 0 --beta2 0 --lr 3e-2 --out " + out + small_run);
  EXPECT_EQ(diverged.status, 3) << diverged.err;
  EXPECT_THAT(diverged.err, HasSubstr("divergence: the loss is "));
  EXPECT_THAT(diverged.err, HasSubstr("raise --beta2 (now 0)"));
  EXPECT_THAT(diverged.out, HasSubstr("the run has failed: the loss is "));
  EXPECT_THAT(diverged.out, ::testing::Not(HasSubstr("export:")));
  EXPECT_THAT(testing::content_of(folder / "run/doctor.txt"), HasSubstr("watch, step "));
  // A finished run has the same code when it is asked again.
  const Outcome again = binade("train --resume --json --out " + out);
  EXPECT_EQ(again.status, 3) << again.err;
  EXPECT_THAT(again.out, HasSubstr("\"failure\":\"the loss is "));
  // Too many skipped steps in a row end a run early.
  const Outcome skipped = binade("train --steps 60 --precision fp16 --lr 100 --warmup 0 --out " +
                                 quoted((folder / "skips").string()) + small_run);
  EXPECT_EQ(skipped.status, 3) << skipped.err;
}

TEST(CliTrain, AFolderIsNoConfiguration) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder / "run").string();
  std::filesystem::create_directories(path);
  const Outcome empty = binade("train --resume " + quoted(path));
  EXPECT_EQ(empty.status, 2);
  EXPECT_EQ(empty.err, "binade: config: " + path + ": expected a TOML file, found a folder\n");
  ASSERT_EQ(binade("train --quiet --steps 1 --out " + quoted(path) + small_run).status, 0);
  EXPECT_THAT(binade("train --resume " + quoted(path)).err,
              HasSubstr("found the folder of a run; train --resume --out " + path));
}

TEST(CliTrain, DryRunTrainsNothing) {
  const testing::TemporaryFolder folder;
  const Outcome outcome =
      binade("train --dry-run --preset gpt2-124m --out " + quoted((folder / "run").string()));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("124,439,808 parameters"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(CliTrain, TheDocumentedForecastIsThatOfTheProgram) {
  const Outcome outcome = binade("train --dry-run --device cpu --preset gpt2-124m");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string document = testing::content_of(test::source_dir() / "docs/training.md");
  const size_t begin = document.find("# 124,439,808 parameters"), end = document.find("```", begin);
  ASSERT_NE(begin, std::string::npos);
  EXPECT_THAT(outcome.out, HasSubstr(document.substr(begin, end - begin)));
}

TEST(CliInfo, PrintsJson) {
  const auto info = nlohmann::json::parse(binade("info --json").out);
  EXPECT_EQ(info.at("matmul").at("f32"), "native");
  EXPECT_GE(info.at("cores"), 1);
}

TEST(CliTrain, RunsWithoutANameAreCounted) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"runs/1", "runs/2"}) {
    const Outcome outcome = run_shell("cd " + quoted(folder.path().string()) + " && " +
                                      quoted(BINADE_EXECUTABLE) + " train --steps 1" + small_run);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(std::filesystem::exists(folder / name / "summary.json")) << outcome.out;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "runs/3"));
}

TEST(CliInfo, NamesTheLibrariesOfRanks) {
  const auto info = nlohmann::json::parse(binade("info --json").out);
  const std::string mpi = info.at("mpi"), nccl = info.at("nccl");
  const std::string expected =
      "many, by TCP" + (mpi.empty() ? "" : ", " + mpi) + (nccl.empty() ? "" : ", " + nccl);
  EXPECT_THAT(binade("info").out, HasSubstr(" " + expected + "\n"));
}

TEST(CliPolicy, PrintsTheTableAndATrace) {
  EXPECT_TRUE(nlohmann::json::accept(binade("policy --json").out));
  EXPECT_THAT(binade("policy").out, HasSubstr("linear"));
  EXPECT_THAT(binade("policy --trace").out, HasSubstr("linear_cross_entropy"));
  // A small model of one block, unless options name one.
  const auto last_block = [](const std::string& options) {
    const std::string trace = binade("policy --trace" + options).out;
    const size_t at = trace.rfind("blocks.", trace.find("linear_cross_entropy"));
    return at == trace.npos ? ' ' : trace[at + 7];
  };
  EXPECT_EQ(last_block(""), '0');
  EXPECT_EQ(last_block(" --layers 3"), '2');
  EXPECT_EQ(last_block(" --preset tiny"), '3');
}

}  // namespace
}  // namespace binade::cli
