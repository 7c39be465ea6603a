#include "binade/train/memory/forecast.h"

#include <gtest/gtest.h>

#include "binade/train/trainer.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

// Real steps allocate what was forecast, byte for byte in every category.
void expect_what_a_run_takes(Config config, const std::string& what) {
  config.train.accumulate = 2;
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
  for (const std::string precision : {"fp32", "bf16", "fp16", "fp8"}) {
    for (const auto& [name, params] : parameter_names) {
      if (params != ParameterStorage::autocast && precision == "fp32") continue;
      if (params == ParameterStorage::split && precision == "fp16") continue;
      Config config = small_config(precision);
      config.precision.params = params;
      expect_what_a_run_takes(config, precision + " " + std::string(name));
    }
  }
}

// Emulated matmuls allocate dequantized operands; a wide layer makes them set the peak.
TEST(Forecast, KnowsFinerFp8Scales) {
  for (const char* recipe : {"current", "row", "block", "mx"}) {
    Config config = small_config("fp8");
    config.model.hidden = 2048;
    config.precision.recipe = amp::parse_recipe(recipe);
    expect_what_a_run_takes(config, recipe);
  }
}

TEST(Forecast, IsWhatARunWithAnFp8HeadTakes) {
  Config config = small_config("fp8");
  config.precision.recipe.set_head(true);
  expect_what_a_run_takes(config, "FP8 head");
}

// The gradients of its logits are there a second time, in one byte each.
TEST(Forecast, ChunksOfAnFp8HeadAreShorter) {
  Config config = small_config("fp8");
  config.train.device = Device::cuda();
  config.model.vocab = 32000;
  config.model.width = 2048;
  config.model.context = 2048;
  config.train.batch = 8;
  EXPECT_EQ(loss_chunk(config), 5504);
  config.precision.recipe.set_head(true);
  EXPECT_EQ(loss_chunk(config), 4096);
  config.precision.matmul = Precision::bf16;
  EXPECT_EQ(loss_chunk(config), 5504);
}

TEST(Forecast, NeedsNoMemoryForALargeModel) {
  const Config config = resolve({.file = {}, .options = {{"preset", "gpt2-1.5b"}, {"batch", "1"}}});
  const int64_t before = memory::statistics().misses;
  EXPECT_GT(forecast_memory(config).peak, int64_t{16} * 1'557'611'200);
  EXPECT_LT(memory::statistics().misses - before, 10);
}

// Lean blocks of a GPU do not keep the results of GELU, 16 bits for each hidden unit of each token;
// those of a CPU do.
TEST(Forecast, KnowsWhatAGpuComputesAgain) {
  Config config = small_config("bf16");
  config.model.family = ModelFamily::gpt2;
  config.model.layers = 6;
  config.train.batch = 16;
  const auto peak = [&](Device device, const nn::Activations& activations) {
    config.train.device = device;
    config.train.activations = activations;
    return forecast_memory(config).peak;
  };
  const int64_t results =
      config.model.layers * config.train.batch * config.model.context * 4 * config.model.width * 2;
  EXPECT_EQ(peak(Device::cuda(), nn::Activations::keep()) - peak(Device::cuda(), nn::Activations{}),
            results);
  EXPECT_EQ(peak(Device::cpu(), nn::Activations::keep()), peak(Device::cpu(), nn::Activations{}));
}

}  // namespace
}  // namespace binade::train
