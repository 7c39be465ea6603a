#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/command.h"

namespace binade::cli {
namespace {

using ::testing::HasSubstr;

Outcome bench(const std::string& arguments) {
  return run_shell(quoted(BINADE_EXECUTABLE) + " bench " + arguments);
}

constexpr const char* small_step =
    "step --device cpu --layers 1 --width 32 --heads 2 --context 16 --batch 32 --steps 3 --warmup "
    "1 ";

TEST(Bench, StepReportsEveryPrecision) {
  const Outcome outcome = bench(std::string(small_step) + "--json --precision fp32,bf16,fp16,fp8");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["layers"], 1);
  ASSERT_EQ(json["results"].size(), 4u);
  for (const auto& result : json["results"]) {
    EXPECT_GT(result["tokens_per_second"], 0) << result;
    EXPECT_GE(result["best_tokens_per_second"], result["tokens_per_second"]) << result;
    EXPECT_GE(result["first_step_since_start_s"], 0) << result;
    EXPECT_EQ(result["misses_after_warmup"], 0) << result;
    EXPECT_NEAR(result["loss"], std::log(256.0), 0.1) << result;  // random tokens: chance
    EXPECT_GT(result["work_ms"]["matrix"], 0) << result;
    EXPECT_GT(result["work_ms"]["attention"], 0) << result;
    EXPECT_EQ(result["work_ms"]["quantize"] > 0, result["precision"] == "fp8") << result;
    int64_t sum = 0;
    for (const auto& bytes : result["peak_bytes_by_category"]) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, result["peak_bytes"]) << result;
    EXPECT_GE(result["peak_reserved_bytes"], result["peak_bytes"]) << result;
    EXPECT_FALSE(result.contains("joules_per_token")) << "a CPU does not tell: " << result;
  }
  const auto activations = [&json](size_t i) {
    return json["results"][i]["peak_bytes_by_category"]["activations"].get<double>();
  };
  EXPECT_LE(activations(1), 0.7 * activations(0));
}

TEST(Bench, StepNamesOptionsWithoutEffect) {
  const std::string command =
      std::string(small_step) + "--json --recipe 'delayed, hidden = true, head = true' ";
  EXPECT_EQ(bench(command + "--precision bf16").err,
            "binade: warning: --recipe has no effect without --precision fp8\n");
  EXPECT_EQ(bench(command + "--precision bf16,fp8 --model llama").err, "");
}

// 6 operations per weight of a matmul, and 6 per layer, channel and token of context.
TEST(Bench, StepCountsOperations) {
  const auto json = nlohmann::json::parse(bench(std::string(small_step) + "--json").out);
  constexpr double block = 12 * 32 * 32, head = 256 * 32;
  EXPECT_DOUBLE_EQ(json["flops_per_token"], 6 * (block + head) + 6 * 32 * 16);
}

TEST(Bench, ResNetReportsEveryPrecision) {
  const Outcome outcome = bench(
      "resnet --depth 18 --batch 2 --image 32 --steps 2 --warmup 2 --precision fp32,bf16,fp16 "
      "--json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["depth"], 18);
  ASSERT_EQ(json["results"].size(), 3u);
  for (const auto& result : json["results"]) {
    EXPECT_GT(result["images_per_second"], 0) << result;
    EXPECT_GE(result["best_images_per_second"], result["images_per_second"]) << result;
    EXPECT_EQ(result["misses_after_warmup"], 0) << result;
    EXPECT_GT(result["work_ms"]["matrix"], 0) << result;
    EXPECT_GT(result["work_ms"]["norm"], 0) << result;
    EXPECT_TRUE(result["loss"].is_number()) << result;  // finite
    // 4 bytes for each of 11,689,512 parameters, and 10 KB of running statistics.
    const auto parameters = result["peak_bytes_by_category"]["parameters"].get<int64_t>();
    EXPECT_GE(parameters, 4 * 11'689'512) << result;
  }
}

TEST(Bench, GemmReportsRates) {
  const Outcome outcome = bench("gemm --device cpu --json --seconds 0 --shapes 64x48x32");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["results"].size(), 1u);
  EXPECT_EQ(json["results"][0]["n"], 48);
  for (const auto& product : json["results"][0]["cases"]) EXPECT_GT(product["gflops"], 0);
}

// The options of a run that change what a step costs, and no others.
TEST(Bench, StepTakesWhatAffectsAStep) {
  const std::string help = bench("step --help").out;
  for (const char* option :
       {"--layers",     "--width",     "--heads",       "--kv-heads", "--hidden",
        "--context",    "--vocab",     "--model",       "--params",   "--residual",
        "--moments",    "--gradients", "--recipe",      "--device",   "--batch",
        "--accumulate", "--memory",    "--activations", "--graph",    "--nondeterministic",
        "--seed",       "--threads"})
    EXPECT_THAT(help, HasSubstr(std::string("  ") + option + " ")) << option;
  for (const char* option : {"--data", "--lr", "--out", "--eval-every", "--checkpoint-every",
                             "--sample", "--resume", "--warmup-steps", "--clip"})
    EXPECT_THAT(help, ::testing::Not(HasSubstr(std::string("  ") + option + " "))) << option;
}

// The first line of each report says how many threads it ran on.
TEST(Bench, TakesItsNumberOfThreads) {
  for (const char* arguments :
       {"gemm --seconds 0 --shapes 8x8x8",
        "step --layers 1 --width 32 --heads 2 --context 16 --batch 2 --steps 1 --warmup 1 "
        "--precision fp32",
        "resnet --depth 18 --batch 2 --image 32 --steps 1 --warmup 1 --precision fp32"}) {
    const Outcome outcome = bench(std::string(arguments) + " --device cpu --threads 3");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("cpu, 3 threads")) << arguments;
  }
}

TEST(Bench, RefusesWhatItCannotMeasure) {
  const std::pair<std::string, std::string> cases[] = {
      {"gemm --shapes 2x3", "MxNxK"},     {"gemm --shapes 2x3x0", "MxNxK"},
      {"gemm --shapes 0x3x4", "MxNxK"},   {"gemm --shapes 2x0x4", "MxNxK"},
      {"gemm --shapes 2x3x4x5", "MxNxK"}, {"gemm --shapes 1048577x3x4", "MxNxK"},
      {"gemm --shapes 2x3x4y", "MxNxK"},  {"gemm --device tpu", "tpu"},
      {"step --precision fp9", "fp9"},    {"step --steps 0", "--steps"},
      {"step --heads 3", "heads"},        {"", "one of step, resnet, gemm, ops"},
      {"resnet --depth 20", "--depth"},   {"resnet --precision fp8", "fp32, bf16 or fp16"},
  };
  for (const auto& [arguments, naming] : cases) {
    const Outcome outcome = bench(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(naming)) << arguments;
  }
}

}  // namespace
}  // namespace binade::cli
