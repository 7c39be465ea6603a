#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "io/temporary_folder.h"

namespace binade::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string small_model =
    " --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --threads 1 ";

TEST(CliLab, ListsAndRunsExperiments) {
  const Outcome list = binade("lab");
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, HasSubstr("attention-overflow"));
  const testing::TemporaryFolder folder;
  const Outcome one = binade("lab accumulation --out " + quoted((folder / "page").string()));
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("Conclusion:"));
  EXPECT_THAT(testing::content_of(folder / "page/lab.html"), HasSubstr("<svg"));
}

TEST(CliPlan, PrintsATableAndJson) {
  const Outcome text = binade("plan --device cpu --memory 1GB" + small_model);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("fp8, masters, recompute"));
  EXPECT_THAT(text.out, HasSubstr("1.0 GB of memory"));
  // No CPU multiplies FP8 by itself.
  EXPECT_THAT(text.out, HasSubstr("fp8: the numerics are right"));
  const auto plan =
      nlohmann::json::parse(binade("plan --json --device cpu --memory 64MiB" + small_model).out);
  EXPECT_EQ(plan.at("memory"), 64 << 20);
  EXPECT_EQ(plan.at("rows").size(), 16u);
  EXPECT_GT(plan.at("rows").at(0).at("largest_batch"), 1);
  // The program and its libraries, not what planning itself took.
  const int64_t program = plan.at("rows").at(0).at("rss").get<int64_t>() -
                          plan.at("rows").at(0).at("peak").get<int64_t>();
  EXPECT_GT(program, 4 << 20);
  EXPECT_LT(program, 200 << 20);
}

TEST(CliCompare, PrintsATableAndWritesAPage) {
  const testing::TemporaryFolder folder;
  const Outcome outcome = binade("compare --precisions fp32,bf16 --seeds 2 --steps 3 --out " +
                                 quoted((folder / "page").string()) + small_model);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("bf16"));
  EXPECT_TRUE(std::filesystem::exists(folder / "page/compare.html"));
}

// A comparison's own rate is at most 1e-3 and its warmup a fifth of its steps; both can be given.
TEST(CliCompare, HasItsOwnRateAndWarmup) {
  const testing::TemporaryFolder folder;
  const auto loss = [&](const std::string& options) {
    const Outcome outcome = binade("compare --json --precisions fp32 --seeds 2 --steps 5 --out " +
                                   quoted((folder / "page").string()) + small_model + options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out).at("runs").at(0).at("loss").get<double>();
  };
  const double found = loss("");
  EXPECT_EQ(found, loss(" --lr 1e-3 --warmup 1"));
  EXPECT_NE(found, loss(" --lr 3e-3"));
  EXPECT_NE(found, loss(" --lr 5e-4"));
  EXPECT_NE(found, loss(" --warmup 4"));
}

TEST(CliSweep, PrintsARankingAndWritesAPageAndAPlan) {
  const testing::TemporaryFolder folder;
  const std::string out = " --out " + quoted((folder / "swept").string()) + small_model;
  const Outcome text = binade("sweep --steps 2" + out);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("blocks.0.mlp.down"));
  EXPECT_THAT(text.err, HasSubstr("blocks.0.attention.qkv in FP8: loss "));
  EXPECT_TRUE(std::filesystem::exists(folder / "swept/sweep.html"));
  const Outcome run = binade("train --precision fp8 --steps 1 --precision-plan " +
                             quoted((folder / "swept/precision_plan.json").string()) + " --out " +
                             quoted((folder / "run").string()) + small_model);
  EXPECT_EQ(run.status, 0) << run.err;
  const auto json = nlohmann::json::parse(binade("sweep --json --by matmul --steps 1" + out).out);
  EXPECT_EQ(json.at("ranked").size(), 12u);
}

// Interrupted after its first matmul of twelve, a sweep has a ranking, but has moved nothing yet.
TEST(CliSweep, AnInterruptKeepsAnEarlierPlan) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "swept");
  const std::string plan = "{\"layers\": []}  \n";
  const auto file = folder.put("swept/precision_plan.json", plan);
  const std::string lines = quoted((folder / "lines").string());
  // A pipe has the line at once: eleven runs are left when the signal comes. A second one would end
  // the program.
  const Outcome outcome = run_shell(
      "mkfifo " + lines + " && { " + quoted(BINADE_EXECUTABLE) + " sweep --by matmul --steps 60 " +
      "--out " + quoted((folder / "swept").string()) + small_model + " 2> " + lines +
      " & pid=$!; while read -r line; do case $sent$line in blocks*' in FP8: loss'*) " +
      "kill -INT $pid; sent=yes;; esac; done < " + lines + "; wait $pid; }");
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("blocks.0.attention.qkv"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("plan:")));
  EXPECT_TRUE(std::filesystem::exists(folder / "swept/sweep.html"));
  EXPECT_EQ(testing::content_of(file), plan);
}

TEST(CliCompare, AnInterruptKeepsCompleteRuns) {
  const testing::TemporaryFolder folder;
  const std::string log = quoted((folder / "log").string());
  // The shell waits for the first run to end, then interrupts.
  const Outcome outcome = run_shell(
      quoted(BINADE_EXECUTABLE) + " compare --precisions fp32,bf16 --seeds 100 --steps 200 --out " +
      quoted((folder / "page").string()) + small_model + " 2> " + log +
      " & pid=$!; until grep -qs 'fp32: validation loss' " + log +
      "; do kill -0 $pid || exit 1; done; kill -INT $pid; wait $pid");
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_THAT(testing::content_of(folder / "log"), HasSubstr("stopped; "));
  EXPECT_THAT(outcome.out, HasSubstr("fp32"));
  EXPECT_TRUE(std::filesystem::exists(folder / "page/compare.html"));
}

// One command compares auto-precision with bf16 and plain fp8; the report has the result, also when
// it is written again.
TEST(CliTrain, BaselinesOfAutoPrecisionAreInTheReport) {
  const testing::TemporaryFolder folder;
  const std::string run = quoted((folder / "run").string());
  const std::string train = "train --precision fp8 --auto-precision --out " + run;
  const Outcome alone = binade(train + " --steps 2" + small_model);
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("train --resume --baselines --out"));
  EXPECT_THAT(testing::content_of(folder / "run/report.html"), HasSubstr("Not measured"));

  const Outcome compared = binade("train --resume --baselines --out " + run);
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("baseline bf16:"));
  EXPECT_THAT(compared.out, HasSubstr("fp8, auto-precision"));
  for (const char* precision : {"bf16", "fp8"}) {
    const std::string toml =
        testing::content_of(folder / "run/baselines" / precision / "config.toml");
    EXPECT_THAT(toml, HasSubstr("precision = \"" + std::string(precision) + "\""));
    EXPECT_THAT(toml, HasSubstr("auto_precision = false"));
  }
  EXPECT_EQ(binade("report " + run).status, 0);
  EXPECT_THAT(testing::content_of(folder / "run/report.html"), HasSubstr("to bf16"));
  EXPECT_TRUE(std::filesystem::exists(folder / "run/baselines.html"));

  // Complete ones are not trained again; JSON has their losses.
  const Outcome again = binade("train --resume --baselines --json --out " + run);
  const std::string last = again.out.substr(again.out.rfind('\n', again.out.size() - 2) + 1);
  EXPECT_EQ(nlohmann::json::parse(last).at("baselines").size(), 2u);
  EXPECT_THAT(again.out, Not(HasSubstr("\"step\":1,")));
}

TEST(CliTrain, AnInterruptedBaselineContinues) {
  const testing::TemporaryFolder folder;
  const std::string run = quoted((folder / "run").string());
  // The shell waits for the first steps of the baseline, then interrupts.
  const Outcome outcome =
      run_shell(quoted(BINADE_EXECUTABLE) + " train --precision fp8 --auto-precision --baselines " +
                "--steps 400 --out " + run + small_model + " & pid=$!; until grep -qs step " + run +
                "/baselines/bf16/metrics.jsonl" +
                "; do kill -0 $pid || exit 1; done; kill -INT $pid; wait $pid");
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("stopped in a baseline; continue with:"));
  EXPECT_THAT(outcome.out, HasSubstr("train --resume --baselines --out"));
  const Outcome continued = binade("train --resume --baselines --out " + run);
  EXPECT_EQ(continued.status, 0) << continued.err;
  for (const char* precision : {"bf16", "fp8"})
    EXPECT_THAT(testing::content_of(folder / "run/baselines" / precision / "metrics.jsonl"),
                HasSubstr("\"step\":400"));
}

TEST(CliLab, BadInputIsOneMessageAndExitCodeTwo) {
  const std::pair<const char*, const char*> cases[] = {
      {"lab no-such", "no-such"},
      {"lab formats --out /dev/null/x", "/dev/null/x"},
      {"plan --memory plenty", "\"plenty\""},
      {"plan --memory -1GB", "--memory"},
      {"plan --stpes 3", "--steps"},
      {"compare --precisions fp4", "'fp4'"},
      {"compare --seeds 1", "--seeds"},
      {"sweep --precision bf16", "fp8, whose layers"},
      {"sweep --by head", "--by"},
      {"sweep --steps 1 --out /dev/null/x", "/dev/null/x"},
      {"policy --steps 2", "expected --trace"},
      {"formats nan", "finite numbers"},
      {"formats 3 --in e9m9", "e9m9"},
      {"formats --in e3m4", "NUMBER"},
      {"formats 3 --bits", "excludes"},
      {"train --precision bf16 --auto-precision --steps 1", "precision 'fp8'"},
      {"train --precision fp8 --baselines --steps 1", "--auto-precision"},
      {"train --precision fp8 --precision-plan no-such.json --steps 1", "no-such.json"},
  };
  for (const auto& [arguments, message] : cases) {
    const std::string given = arguments;
    const bool takes_a_model = !given.starts_with("lab") && !given.starts_with("formats");
    const Outcome outcome = binade(given + (takes_a_model ? small_model : ""));
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace binade::cli
