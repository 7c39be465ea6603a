#include "binade/lab/step_time.h"

#include <gtest/gtest.h>

#include "binade/io/huggingface.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

// The small model of the measurement has one block: kinds of layers, adapters and skipped layers
// that the configuration names by block must not be looked for in it.
TEST(MeasureMachine, TakesModelsWhoseBlocksDiffer) {
  train::Config config = train::small_config("fp8");
  config.model.family = train::ModelFamily::llama;
  config.model.architecture =
      io::config_json({.layers = 2,
                       .width = config.model.width,
                       .heads = 2,
                       .kv_heads = 2,
                       .hidden = config.model.hidden,
                       .vocab = config.model.vocab,
                       .context = config.model.context,
                       .norm = nn::NormKind::rms,
                       .bias = false,
                       .qkv_bias = true,
                       .gated = true,
                       .learned_positions = false,
                       .window = 4,
                       .layer_types = {nn::LayerAttention::full, nn::LayerAttention::sliding},
                       .tied_head = false});
  config.model.tied_head = false;
  config.precision.recipe.skip_last = 2;
  config.lora.rank = 2;
  config.lora.targets = {"model.layers.1.self_attn.q_proj"};
  EXPECT_GT(step_seconds(forecast(config), measure_machine(config)), 0);
}

// Nor what a run looks for in blocks that the small model lacks, or in files.
TEST(MeasureMachine, TakesRunsWhoseSettingsNameBlocks) {
  train::Config config = train::small_config("fp8");
  config.model.layers = 2;
  config.train.freeze = {"blocks.1"};
  config.run.layer_stats_modules = {"blocks.1.mlp.up"};
  config.precision.overrides = {{.module = "blocks.1", .run = CastClass::f32}};
  config.precision.plan = "no-such-plan.json";
  config.precision.automatic = true;
  EXPECT_GT(measure_machine(config).bandwidth, 0);
}

TEST(StepSeconds, IsTheSlowerOfArithmeticAndTraffic) {
  Forecast forecast;
  forecast.work = {{.kind = WorkKind::linear, .flops = 100, .bytes = 1, .dtype = DType::f32},
                   {.kind = WorkKind::attention, .flops = 100, .bytes = 1, .dtype = DType::bf16},
                   {.kind = WorkKind::loss, .flops = 100, .bytes = 1, .dtype = DType::e4m3},
                   {.kind = WorkKind::other, .flops = 100, .bytes = 1, .dtype = DType::f16},
                   {.kind = WorkKind::update, .flops = 1, .bytes = 80, .dtype = DType::bf16}};
  // fp32, tf32, bf16, fp16 and fp8: each at its own rate.
  Machine machine{.flops = {100, 125, 200, 50, 400}, .bandwidth = 20};
  EXPECT_DOUBLE_EQ(step_seconds(forecast, machine), 1 + 0.5 + 0.25 + 2 + 4);
  forecast.precision = train::Precision::tf32;
  EXPECT_DOUBLE_EQ(step_seconds(forecast, machine), 0.8 + 0.5 + 0.25 + 2 + 4);
  // Each kind of work by its own factor.
  const auto tf32 = static_cast<size_t>(train::Precision::tf32);
  machine.slowdown[tf32] = {2, 3, 5, 7, 11};
  EXPECT_DOUBLE_EQ(step_seconds(forecast, machine), 2 * 0.8 + 3 * 0.5 + 5 * 0.25 + 7 * 2 + 11 * 4);
  machine.statistics[tf32] = 0.5;
  forecast.observed_blocks = 3;
  machine.slowdown[tf32] = Machine::no_slowdown;
  EXPECT_DOUBLE_EQ(step_seconds(forecast, machine), 0.8 + 0.5 + 0.25 + 2 + 4 + 3 * 0.5);
  machine.weight_cast[tf32] = 0.125;
  forecast.parameter_count = 8;
  forecast.observed_blocks = 0;
  EXPECT_DOUBLE_EQ(step_seconds(forecast, machine), 0.8 + 0.5 + 0.25 + 2 + 4);
  forecast.casts_weights = true;
  EXPECT_DOUBLE_EQ(step_seconds(forecast, machine), 0.8 + 0.5 + 0.25 + 2 + 4 + 1);
}

// Statistics of every block in each n-th step.
TEST(Forecast, KnowsHowOftenStatisticsAreTaken) {
  train::Config config = train::small_config("bf16");
  config.model.layers = 6;
  config.train.steps = 100;
  const std::pair<int64_t, double> expected[] = {{0, 0}, {1, 6}, {4, 1.5}, {200, 0}};
  for (const auto& [every, blocks] : expected) {
    config.run.layer_stats = every;
    EXPECT_EQ(forecast(config).observed_blocks, blocks) << every;
  }
}

}  // namespace
}  // namespace binade::lab
