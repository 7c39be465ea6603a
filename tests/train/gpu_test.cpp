#include <gtest/gtest.h>

#include <cmath>

#include "binade/backend/gpu.h"
#include "binade/train/step.h"
#include "support/values.h"
#include "train/small_run.h"

// The same runs on the CPU and on a GPU, where there is one.
namespace binade::train {
namespace {

struct Trained {
  std::vector<double> losses;
  int64_t skipped = 0;
  StateDict state;
};

Trained train(const Config& config, const std::string& device) {
  Config here = config;
  here.device = device;
  const data::Tokens tokens = data::Tokens::of_bytes(small_text());
  Trainer trainer(here);
  Trained run;
  for (int64_t i = 0; i < config.steps; ++i) {
    trainer.start_step(tokens);
    for (const StepResult& result : trainer.finished(i + 1 == config.steps))
      run.losses.push_back(result.loss);
  }
  run.skipped = trainer.skipped();
  run.state = trainer.state_dict();
  return run;
}

class TrainingGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};

Config hundred_steps(const std::string& precision) {
  Config config = small_config(precision);
  config.width = 64;
  config.heads = config.kv_heads = 4;
  config.hidden = 256;
  config.context = 32;
  config.steps = 100;
  config.scale_growth_interval = 20;
  config.lr = 1e-3;
  return config;
}

// Rounding differs where sums run in another order; over 100 steps of a falling loss it stays
// within a thousandth (fp8: a hundredth, where one code more or less is 1/16 of a value).
TEST_P(TrainingGpu, FollowsTheCpu) {
  const std::string precision = GetParam();
  const Config config = hundred_steps(precision);
  const Trained cpu = train(config, "cpu"), gpu = train(config, "cuda");
  ASSERT_EQ(gpu.losses.size(), 100u);
  const double tolerance = precision == "fp8" ? 1e-2 : 1e-3;
  for (size_t i = 0; i < gpu.losses.size(); ++i)
    ASSERT_NEAR(gpu.losses[i], cpu.losses[i], tolerance * cpu.losses[i]) << "step " << i + 1;
  EXPECT_LT(gpu.losses.back(), 0.8 * gpu.losses.front());
  EXPECT_EQ(gpu.skipped, cpu.skipped);
}

TEST_P(TrainingGpu, GivesTheSameBitsTwice) {
  Config config = hundred_steps(GetParam());
  config.steps = 10;
  const Trained one = train(config, "cuda"), two = train(config, "cuda");
  EXPECT_EQ(one.losses, two.losses);
  ASSERT_EQ(one.state.size(), two.state.size());
  for (const auto& [name, tensor] : one.state)
    EXPECT_TRUE(test::same_bits(tensor, two.state.at(name))) << name;
}

INSTANTIATE_TEST_SUITE_P(Precisions, TrainingGpu,
                         testing::Values("fp32", "tf32", "bf16", "fp16", "fp8"));

class OverflowGpu : public TrainingGpu {};

// A first scale far too large: steps are skipped on the device, counted there and reported late.
TEST_P(OverflowGpu, SkipsAndCountsAsTheCpuDoes) {
  Config config = hundred_steps("fp16");
  config.steps = 12;
  config.scale_init = 0x1p40;
  const Trained cpu = train(config, "cpu"), gpu = train(config, "cuda");
  EXPECT_GT(gpu.skipped, 0);
  EXPECT_EQ(gpu.skipped, cpu.skipped);
  EXPECT_EQ(test::read(gpu.state.at("optimizer.steps")),
            test::read(cpu.state.at("optimizer.steps")));
  EXPECT_EQ(test::read(gpu.state.at("scaler.scale")), test::read(cpu.state.at("scaler.scale")));
}

INSTANTIATE_TEST_SUITE_P(Once, OverflowGpu, testing::Values("fp16"));

}  // namespace
}  // namespace binade::train
