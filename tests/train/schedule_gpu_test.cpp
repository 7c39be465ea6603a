#include <gtest/gtest.h>

#include <cmath>

#include "binade/backend/gpu.h"
#include "binade/train/trainer.h"
#include "support/values.h"
#include "train/small_run.h"

// The learning rate on a device that knows of skipped steps before the host does.
namespace binade::train {
namespace {

struct Scheduled {
  std::vector<StepResult> results;
  double way = 0;  // how far all weights went together
};

Scheduled run_on(Device device, GraphMode graph) {
  Config config = small_config("fp16");
  config.train.device = device;
  config.train.graph = graph;
  config.train.steps = 40;
  config.train.warmup = 40;              // the rate rises with every applied step
  config.precision.scale_init = 0x1p40;  // some twenty steps are skipped first
  config.train.weight_decay = 0;
  config.precision.scale_growth_interval = 1000;
  Trainer trainer(config);
  std::vector<std::vector<double>> start;
  for (const Tensor& weight : trainer.model().parameters()) start.push_back(test::read(weight));
  Scheduled run;
  for (int64_t i = 0; i < 26; ++i) {
    trainer.start_step(small_tokens());
    for (const StepResult& result : i == 25 ? trainer.finish_all() : trainer.finished())
      run.results.push_back(result);
  }
  size_t index = 0;
  for (const Tensor& weight : trainer.model().parameters()) {
    const std::vector<double> end = test::read(weight), &begin = start[index++];
    for (size_t i = 0; i < end.size(); ++i) run.way += std::abs(end[i] - begin[i]);
  }
  return run;
}

class ScheduleGpu : public ::testing::TestWithParam<GraphMode> {};

// By the steps started the rates would be several times as high.
TEST_P(ScheduleGpu, FollowsTheStepsThatTheDeviceApplied) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Scheduled cpu = run_on(Device::cpu(), GraphMode::off),
                  gpu = run_on(Device::cuda(), GetParam());
  ASSERT_EQ(gpu.results.size(), 26u);
  ASSERT_GT(gpu.results.back().skipped, 10);
  ASSERT_LT(gpu.results.back().skipped, 24);
  for (size_t i = 0; i < 26; ++i) {
    EXPECT_EQ(gpu.results[i].applied, cpu.results[i].applied) << "step " << i + 1;
    EXPECT_EQ(gpu.results[i].skipped, cpu.results[i].skipped) << "step " << i + 1;
    EXPECT_EQ(gpu.results[i].lr, cpu.results[i].lr) << "step " << i + 1;
  }
  // Adam's first steps go by about the rate, whatever the rounding of the gradients.
  EXPECT_NEAR(gpu.way, cpu.way, 0.05 * cpu.way);
}

INSTANTIATE_TEST_SUITE_P(Graphs, ScheduleGpu, ::testing::Values(GraphMode::off, GraphMode::on));

}  // namespace
}  // namespace binade::train
