#include "binade/lab/gpu_speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "support/error_of.h"

namespace binade::lab {
namespace {

using ::testing::HasSubstr;

// A run on an H200 in docs/benchmarks.md.
struct MeasuredRun {
  const char* name;
  train::Sources::Options model;
  const char* precision;
  double tokens_per_second;
};

const train::Sources::Options gpt2_124m = {
    {"model", "gpt2"},  {"layers", "12"},    {"width", "768"}, {"heads", "12"},
    {"vocab", "50304"}, {"context", "1024"}, {"batch", "64"},  {"params", "masters"}};
const train::Sources::Options llama_1b = {
    {"model", "llama"},  {"layers", "24"},   {"width", "2048"},
    {"heads", "16"},     {"hidden", "5632"}, {"vocab", "32000"},
    {"context", "2048"}, {"batch", "8"},     {"params", "masters"}};
const train::Sources::Options slice_8b = {
    {"model", "llama"},  {"layers", "8"},     {"width", "4096"},
    {"heads", "32"},     {"hidden", "14336"}, {"vocab", "32000"},
    {"context", "4096"}, {"batch", "4"},      {"params", "masters"}};
const train::Sources::Options qwen_1b = {
    {"model", "llama"}, {"layers", "28"},     {"width", "1536"},   {"heads", "12"},
    {"kv-heads", "2"},  {"hidden", "8960"},   {"vocab", "151936"}, {"context", "1024"},
    {"batch", "16"},    {"params", "masters"}};
const train::Sources::Options llama_8b = {
    {"model", "llama"}, {"layers", "32"},    {"width", "4096"},     {"heads", "32"},
    {"kv-heads", "8"},  {"hidden", "14336"}, {"vocab", "128256"},   {"context", "4096"},
    {"batch", "4"},     {"params", "split"}, {"gradients", "bf16"}, {"moments", "8bit"}};

// The first four set the table of utilizations; the others are models it has not seen.
const MeasuredRun measured_runs[] = {
    {"gpt2", gpt2_124m, "bf16", 642'537},      {"llama", llama_1b, "bf16", 68'174},
    {"llama in FP8", llama_1b, "fp8", 93'616}, {"slice", slice_8b, "bf16", 45'570},
    {"slice in FP8", slice_8b, "fp8", 64'319}, {"qwen", qwen_1b, "bf16", 56'809},
    {"qwen in FP8", qwen_1b, "fp8", 75'799},   {"whole", llama_8b, "bf16", 12'423},
    {"whole in FP8", llama_8b, "fp8", 17'871}};

train::Config measured_config(const MeasuredRun& run) {
  train::Sources::Options options = run.model;
  options.insert(options.end(),
                 {{"precision", run.precision}, {"device", "cpu"}, {"activations", "lean"}});
  return train::resolve({"", options});
}

TEST(GpuSpeed, RangesHoldWhatAnH200Measured) {
  for (const MeasuredRun& run : measured_runs) {
    const train::Config config = measured_config(run);
    const SpeedRange speed = speed_on(find_gpu("h200"), config, forecast(on_a_gpu(config)));
    std::printf("%-14s measured %9.0f, forecast %9.0f\n", run.name, run.tokens_per_second,
                speed.likely);
    EXPECT_LT(speed.low, run.tokens_per_second) << run.name;
    EXPECT_GT(speed.high, run.tokens_per_second) << run.name;
  }
}

TEST(GpuSpeed, FollowsDataSheets) {
  const train::Config config = measured_config({"", gpt2_124m, "bf16", 0});
  const Forecast work = forecast(config);
  const auto likely = [&](const Gpu& gpu) { return speed_on(gpu, config, work).likely; };
  const double h200 = likely(find_gpu("H200"));
  // Less bandwidth, the same rate.
  EXPECT_LT(likely(find_gpu("H100")), h200);
  EXPECT_GT(likely(find_gpu("H100")), 0.9 * h200);
  EXPECT_NEAR(likely(find_gpu("A100")) / h200, 312 / 989.4, 0.02);
  EXPECT_NEAR(likely(gpu_of_tflops(2 * 989.4)) / h200, 2, 1e-6);
  // Of others only the data sheet is known.
  const SpeedRange elsewhere = speed_on(find_gpu("A100"), config, work);
  EXPECT_LT(elsewhere.low / elsewhere.likely, 0.75);
}

// An A100 has no FP8: its matmuls are in bf16.
TEST(GpuSpeed, RunsWhatAGpuLacksInBf16) {
  const train::Config bf16 = measured_config({"", llama_1b, "bf16", 0}),
                      fp8 = measured_config({"", llama_1b, "fp8", 0});
  const auto ratio = [&](const char* gpu) {
    return speed_on(find_gpu(gpu), fp8, forecast(fp8)).likely /
           speed_on(find_gpu(gpu), bf16, forecast(bf16)).likely;
  };
  EXPECT_NEAR(ratio("a100"), 1, 0.02);
  EXPECT_GT(ratio("rtx4090"), 1.2);
}

TEST(GpuSpeed, NamesAreKnownOrRefused) {
  EXPECT_EQ(find_gpu("rtx-4090").memory, 24'000'000'000);
  EXPECT_THAT(test::error_of([] { find_gpu("B200"); }),
              HasSubstr("--gpu: expected one of H200, H100, A100, RTX 4090, found 'B200'"));
}

}  // namespace
}  // namespace binade::lab
