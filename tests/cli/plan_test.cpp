#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/command.h"
#include "cli/process.h"
#include "io/temporary_folder.h"

// Plans beside the runs they forecast: the allocator's peak, the process's resident memory and
// tokens/s. Speed is comparable on a machine that does nothing else. The test's output is the table
// of docs/lab.md.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct PlannedRun {
  std::string name, options;
};

const std::string tiny = "--layers 4 --width 128 --heads 4 --context 256 --batch 4 ";
const std::string gpt = "--model gpt2 --layers 4 --width 256 --heads 4 --context 256 --batch 8 ";
const std::string wide =
    "--model gpt2 --layers 6 --width 384 --heads 6 --context 256 --vocab 8192 --batch 4 ";
const std::string grouped =
    "--layers 4 --width 512 --heads 8 --kv-heads 2 --context 512 --batch 2 ";

// Models x precisions, then every setting that changes memory or speed.
std::vector<PlannedRun> planned_runs() {
  std::vector<PlannedRun> runs;
  const std::pair<const char*, const std::string*> models[] = {
      {"tiny", &tiny}, {"gpt", &gpt}, {"wide", &wide}, {"grouped", &grouped}};
  for (const auto& [name, options] : models) {
    for (const char* precision : {"fp32", "tf32", "bf16", "fp16", "fp8"})
      runs.push_back({name + std::string("_") + precision, *options + "--precision " + precision});
  }
  const PlannedRun others[] = {
      {"tiny_fp32_recompute", tiny + "--precision fp32 --activations recompute"},
      {"gpt_bf16_recompute", gpt + "--activations recompute"},
      {"wide_fp8_recompute", wide + "--precision fp8 --activations recompute"},
      {"grouped_bf16_masters", grouped + "--params masters"},
      {"wide_fp16_masters_recompute",
       wide + "--precision fp16 --params masters --activations recompute"},
      {"grouped_fp8_masters", grouped + "--precision fp8 --params masters"},
      {"gpt_bf16_accumulate", gpt + "--accumulate 4"},
      {"wide_fp32_accumulate", wide + "--precision fp32 --accumulate 3"},
      {"wide_bf16_checkpoints", wide + "--checkpoint-every 5"},
      {"grouped_fp32_checkpoints", grouped + "--precision fp32 --checkpoint-every 5"},
      {"tiny_bf16_statistics", tiny + "--layer-stats 5"},
      {"wide_fp8_statistics_checkpoints",
       wide + "--precision fp8 --layer-stats 1 --checkpoint-every 5"},
      {"gpt_fp8_auto_precision", gpt + "--precision fp8 --auto-precision"},
      {"wide_bf16_moments", wide + "--moments bf16"},
      {"wide_bf16_8bit_moments", wide + "--moments 8bit"},
      {"grouped_bf16_lion", grouped + "--optimizer lion"},
      {"grouped_bf16_adafactor", grouped + "--optimizer adafactor"},
      {"grouped_fp8_row", grouped + "--recipe row"},
      {"gpt_fp8_block", gpt + "--recipe block"},
      {"gpt_bf16_lora", "--init-from base --lora-rank 8 --batch 8"},
  };
  runs.insert(runs.end(), std::begin(others), std::end(others));
  return runs;
}

std::vector<std::string> split_words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// The highest resident memory of a process so far, bytes; 0 at its end.
double peak_resident(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) return 1024 * std::stod(line.substr(6));
  }
  return 0;
}

struct Figures {
  double peak = 0, resident = 0, speed = 0;  // bytes, bytes, tokens/s
};

Figures forecast_of(const std::string& options) {
  const json plan = json::parse(binade("plan --json --device cpu " + options).out);
  const auto given = [&](const char* option) { return options.find(option) != std::string::npos; };
  const std::vector<std::string> words = split_words(options);
  const auto at = std::find(words.begin(), words.end(), "--precision");
  const std::string precision = at == words.end() ? "bf16" : *(at + 1);
  // Adapters' weights are 16-bit by default.
  const bool masters = given("--params masters") || given("--lora-rank");
  for (const json& row : plan.at("rows")) {
    if (row.at("precision") == precision &&
        row.at("recompute") == given("--activations recompute") &&
        row.at("params") == (masters ? "masters" : "autocast"))
      return {row.at("peak"), row.at("rss"), row.at("tokens_per_second")};
  }
  ADD_FAILURE() << options;
  return {};
}

Figures measured_of(const std::string& options, const fs::path& run) {
  std::vector<std::string> words = {BINADE_EXECUTABLE, "train",    "--quiet", "--out",
                                    run.string(),      "--device", "cpu"};
  for (const std::string& word : split_words(options)) words.push_back(word);
  Figures figures;
  Process process(words, run.string() + ".log");
  while (process.running()) {
    figures.resident = std::max(figures.resident, peak_resident(process.pid()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(process.wait(), 0) << testing::content_of(run.string() + ".log");
  const json summary = json::parse(testing::content_of(run / "summary.json"));
  for (const json& bytes : summary.at("memory_at_peak")) figures.peak += bytes.get<double>();
  std::istringstream lines(testing::content_of(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    figures.speed = json::parse(line).at("tokens_per_second");
  return figures;
}

class PlanSlow : public ::testing::TestWithParam<PlannedRun> {
 protected:
  static void SetUpTestSuite() {
    std::printf("%-32s%9s%9s%7s%9s%9s%7s%10s%10s%7s\n", "run", "peak MB", "plan", "", "RSS MB",
                "plan", "", "tokens/s", "plan", "");
  }
};

TEST_P(PlanSlow, ForecastsWhatARunTakes) {
  const testing::TemporaryFolder folder;
  std::string options = GetParam().options;
  if (const size_t base = options.find("--init-from base"); base != std::string::npos) {
    const std::string out = (folder / "base").string();
    ASSERT_EQ(
        binade("train --quiet --device cpu --steps 1 --sample 0 --out " + quoted(out) + " " + gpt)
            .status,
        0);
    options.replace(base, std::string("--init-from base").size(), "--init-from " + out);
  }
  // Enough steps that the window of a run's speed is full.
  options += " --steps 30 --eval-batches 2 --sample 0";
  if (options.find("--layer-stats") == std::string::npos) options += " --layer-stats 0";
  if (options.find("--checkpoint-every") == std::string::npos) options += " --checkpoint-every 0";
  const Figures plan = forecast_of(options), run = measured_of(options, folder / "run");
  std::printf("%-32s%9.1f%9.1f%+6.1f%%%9.1f%9.1f%+6.1f%%%10.0f%10.0f%+6.0f%%\n",
              GetParam().name.c_str(), run.peak / 1e6, plan.peak / 1e6,
              100 * (plan.peak / run.peak - 1), run.resident / 1e6, plan.resident / 1e6,
              100 * (plan.resident / run.resident - 1), run.speed, plan.speed,
              100 * (plan.speed / run.speed - 1));
  EXPECT_GT(plan.peak / run.peak, 1 - 0.03);
  // A checkpoint that is written before the next step's peak does not count there.
  const bool saves = options.find("--checkpoint-every 0") == std::string::npos;
  if (!saves) {
    EXPECT_LT(plan.peak / run.peak, 1 + 0.03);
  }
  EXPECT_NEAR(plan.resident / run.resident, 1, 0.1);
  EXPECT_NEAR(plan.speed / run.speed, 1, 0.25);
}

INSTANTIATE_TEST_SUITE_P(, PlanSlow, ::testing::ValuesIn(planned_runs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace binade::cli
