#include "binade/lab/plan.h"

#include <gtest/gtest.h>

#include <optional>

#include "binade/lab/doctor.h"
#include "binade/train/checkpoint.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/run/loop.h"
#include "binade/train/trainer.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

struct Setup {
  std::string model, precision, params;
  bool recompute;
};

std::vector<Setup> cases() {
  std::vector<Setup> result;
  for (const char* model : {"gpt2", "llama"}) {
    for (const bool recompute : {false, true}) {
      for (const char* precision : {"fp32", "tf32", "bf16", "fp16", "fp8"})
        result.push_back({model, precision, "autocast", recompute});
      for (const char* precision : {"bf16", "fp16", "fp8"})
        result.push_back({model, precision, "masters", recompute});
      result.push_back({model, "bf16", "split", recompute});
    }
  }
  return result;
}

train::Config config_of(const Setup& one) {
  train::Config config = train::small_config(one.precision);
  config.model.family = *train::find_named(train::model_names, one.model);
  config.precision.params = *train::find_named(train::parameter_names, one.params);
  config.train.activations = nn::Activations::recompute(one.recompute);
  config.model.layers = 3;
  config.model.width = 32;
  config.model.heads = config.model.kv_heads = 4;
  config.model.hidden = 96;
  config.model.context = 24;
  config.train.batch = 4;
  config.train.accumulate = 2;
  config.model.vocab = 256;
  return config;
}

class Plan : public ::testing::TestWithParam<Setup> {};

TEST_P(Plan, IsWhatTheAllocatorMeasures) {
  const train::Config config = config_of(GetParam());
  const Forecast expected = forecast(config);
  const int64_t before = memory::allocated();
  memory::reset_peak();
  int64_t measured = 0;
  std::array<int64_t, memory::category_count> live;
  {
    const memory::Statistics start = memory::statistics();
    train::Trainer trainer(config);
    const data::Tokens tokens = data::Tokens::of_bytes(train::small_text());
    for (int i = 0; i < 2; ++i) trainer.step(tokens);
    measured = memory::peak() - before;
    live = memory::statistics().at_peak;
    for (size_t i = 0; i < live.size(); ++i) live[i] -= start.live[i];
  }
  const auto peak = static_cast<double>(measured);
  EXPECT_NEAR(static_cast<double>(expected.peak), peak, 0.03 * peak);
  for (int i = 0; i < memory::category_count; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_NEAR(static_cast<double>(expected.at_peak[at]), static_cast<double>(live[at]),
                0.03 * peak)
        << memory::name(static_cast<memory::Category>(i));
  }
}

// A run with statistics in every second step.
train::Config run_of(train::Config config, const testing::TemporaryFolder& folder) {
  config.run.layer_stats = 2;
  config.train.steps = 8;
  config.run.eval_every = config.run.sample = config.run.checkpoint_every = 0;
  config.run.out = (folder / "run").string();
  config.data.source = folder.put("text.txt", train::small_text() + train::small_text()).string();
  return config;
}

double measured_peak(const train::Config& config, Doctor& doctor) {
  const int64_t before = memory::allocated();
  memory::reset_peak();
  train::run(config, train::Progress::Mode::quiet, &doctor);
  return static_cast<double>(memory::peak() - before);
}

TEST_P(Plan, OfARunIsWhatTheAllocatorMeasures) {
  const testing::TemporaryFolder folder;
  const train::Config config = run_of(config_of(GetParam()), folder);
  Doctor doctor;
  const double peak = measured_peak(config, doctor);
  EXPECT_NEAR(static_cast<double>(forecast(config).run_peak()), peak, 0.03 * peak);
}

// Checkpoints whose writing takes exactly one step, the one with statistics after every third:
// how long a thread takes to write is not known, and a small one may end before the step's peak.
class SlowCheckpoints : public Doctor {
 public:
  bool before_step(train::Trainer& trainer) override {
    written_.reset();
    if (trainer.steps() > 0 && trainer.steps() % 3 == 0) written_ = train::take_snapshot(trainer);
    return Doctor::before_step(trainer);
  }

 private:
  std::optional<train::Snapshot> written_;
};

TEST_P(Plan, OfARunWithCheckpointsIsWhatTheAllocatorMeasures) {
  const testing::TemporaryFolder folder;
  train::Config config = run_of(config_of(GetParam()), folder);
  SlowCheckpoints doctor;
  const double peak = measured_peak(config, doctor);
  config.run.checkpoint_every = 3;
  EXPECT_NEAR(static_cast<double>(forecast(config).run_peak()), peak, 0.03 * peak);
}

// However fast the thread writes, a run holds one snapshot at a time.
TEST(PlanOfARun, BoundsCheckpointsThatAThreadWrites) {
  for (const int64_t checkpoint_every : {1, 3}) {
    const testing::TemporaryFolder folder;
    train::Config config = run_of(config_of({"llama", "fp16", "masters", true}), folder);
    config.run.checkpoint_every = checkpoint_every;
    Doctor doctor;
    const double peak = measured_peak(config, doctor);
    EXPECT_LT(peak, 1.03 * static_cast<double>(forecast(config).run_peak())) << checkpoint_every;
  }
}

INSTANTIATE_TEST_SUITE_P(Configurations, Plan, ::testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.model + "_" + info.param.precision + "_" + info.param.params +
         (info.param.recompute ? "_recompute" : "");
});

TEST(LargestBatch, FitsAndTheNextDoesNot) {
  train::Config config = config_of({"gpt2", "bf16", "autocast", false});
  const int64_t limit = 6'000'000;
  const int64_t batch = largest_batch(config, limit);
  ASSERT_GT(batch, 1);
  config.train.batch = batch;
  EXPECT_LE(forecast(config).peak, limit);
  config.train.batch = batch + 1;
  EXPECT_GT(forecast(config).peak, limit);
  EXPECT_EQ(largest_batch(config, 1000), 0);
  config.train.activations = nn::Activations::recompute();
  EXPECT_GT(largest_batch(config, limit), batch);
}

// Memory for exactly this batch.
TEST(LargestBatch, IsTheOneWhosePeakIsTheMemory) {
  train::Config config = config_of({"gpt2", "fp32", "autocast", false});
  for (const int64_t batch : {1, 2, 3, 5, 6, 7, 8, 13}) {
    config.train.batch = batch;
    const int64_t peak = train::forecast_memory(config).peak;
    EXPECT_EQ(largest_batch(config, peak), batch);
    EXPECT_EQ(largest_batch(config, peak - 1), batch - 1);
  }
}

TEST(Forecast, KnowsTheLogits) {
  EXPECT_EQ(forecast(config_of({"gpt2", "bf16", "autocast", false})).logits, 4 * 24 * 256 * 2);
  EXPECT_EQ(forecast(config_of({"gpt2", "fp32", "autocast", false})).logits, 4 * 24 * 256 * 4);
}

// A row of logits is 64 KiB: a CPU takes 64 MiB at a time; a GPU at most 384 MiB, which divides
// 16384 rows into three chunks of whole tiles of 128 rows.
TEST(Forecast, CountsTheLogitsOfItsDevice) {
  train::Config config = config_of({"gpt2", "bf16", "autocast", false});
  config.model.vocab = 32768;
  config.model.width = 1024;
  config.model.context = 1024;
  config.train.batch = 16;
  config.train.device = Device::cpu();
  const Forecast cpu = forecast(config);
  config.train.device = Device::cuda();
  const Forecast gpu = forecast(config);
  constexpr int64_t row = 32768 * 2;
  EXPECT_EQ(cpu.logits, 1024 * row);
  EXPECT_EQ(gpu.logits, 5504 * row);
  EXPECT_GT(gpu.peak, cpu.peak);
}

// The rule of thumb of 6 flops per token and matmul parameter, plus attention.
TEST(Forecast, CountsTheWork) {
  train::Config config = config_of({"gpt2", "bf16", "autocast", false});
  const auto total = [&config] {
    double flops = 0;
    for (const Work& one : forecast(config).work) flops += one.flops;
    return flops;
  };
  const double tokens = 2 * 4 * 24;
  const double matrices = 3 * (32 * 96 + 32 * 32 + 2 * 32 * 96) + 256 * 32;
  EXPECT_GT(total(), 6 * matrices * tokens);
  EXPECT_LT(total(), 1.2 * 6 * matrices * tokens);
  const double once = total();
  config.train.activations = nn::Activations::recompute();
  EXPECT_GT(total(), 1.2 * once);  // the blocks' forward runs twice
}

}  // namespace
}  // namespace binade::lab
