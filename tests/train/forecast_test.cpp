#include "binade/train/forecast.h"

#include <gtest/gtest.h>

#include "binade/train/report/peak_throughput.h"
#include "binade/train/trainer.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

// The books of real steps are those of the forecast, byte for byte in every category.
void expect_what_a_run_takes(Config config, const std::string& what) {
  config.accumulate = 2;
  const memory::Statistics forecast = forecast_memory(config);
  const memory::Statistics before = memory::statistics();
  memory::reset_peak();
  Trainer trainer(config);
  const data::Tokens tokens = data::Tokens::of_bytes(small_text());
  for (int i = 0; i < 3; ++i) trainer.step(tokens);
  const memory::Statistics real = memory::statistics();
  EXPECT_EQ(forecast.peak, real.peak - before.allocated) << what;
  for (size_t i = 0; i < memory::category_count; ++i)
    EXPECT_EQ(forecast.at_peak[i], real.at_peak[i] - before.live[i]) << what << " " << i;
}

TEST(Forecast, IsWhatARunTakes) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    for (const bool masters : {false, true}) {
      if (masters && std::string(precision) == "fp32") continue;
      Config config = small_config(precision);
      config.params = masters ? "masters" : "autocast";
      expect_what_a_run_takes(config, precision + std::string(masters ? " masters" : ""));
    }
  }
}

// Where such products run on values, those count; wide enough that they make the peak.
TEST(Forecast, KnowsFinerFp8Scales) {
  for (const char* scaling : {"current", "row", "block", "mx"}) {
    Config config = small_config("fp8");
    config.hidden = 2048;
    config.fp8_scaling = scaling;
    expect_what_a_run_takes(config, scaling);
  }
}

TEST(Forecast, NeedsNoMemoryForALargeModel) {
  Config config;
  config.preset = "gpt2-1.5b";
  config = resolve({.file = {}, .options = {{"preset", "gpt2-1.5b"}, {"batch", "1"}}});
  const int64_t before = memory::statistics().misses;
  EXPECT_GT(forecast_memory(config).peak, int64_t{16} * 1'557'611'200);
  EXPECT_LT(memory::statistics().misses - before, 10);
}

// GPT-2 124M: 6 x 123,532,032 weights in products + 6 x 12 x 768 x 1024.
TEST(Peak, CountsTheWorkOfAToken) {
  const Config config = resolve({.file = {}, .options = {{"preset", "gpt2-124m"}}});
  EXPECT_EQ(flops_per_token(model_config(config)), 6.0 * 123'532'032 + 6.0 * 12 * 768 * 1024);
  // Llama: a third matrix in the MLP, no tied head.
  const Config llama = resolve({.file = {},
                                .options = {{"model", "llama"},
                                            {"width", "8"},
                                            {"heads", "4"},
                                            {"kv-heads", "2"},
                                            {"hidden", "16"},
                                            {"layers", "1"},
                                            {"context", "4"}}});
  EXPECT_EQ(flops_per_token(model_config(llama)),
            6.0 * (8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16 + 256 * 8) + 6.0 * 8 * 4);
}

TEST(Peak, IsMeasuredOnce) {
  const Config config = small_config();
  const double peak = measured_peak(config);
  EXPECT_GT(peak, 1e8);
  EXPECT_EQ(measured_peak(config), peak);
  EXPECT_EQ(full_speed(config), peak / flops_per_token(model_config(config)));
}

}  // namespace
}  // namespace binade::train
