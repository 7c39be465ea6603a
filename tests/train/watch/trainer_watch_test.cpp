#include "binade/train/watch/trainer_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Plants a fault in the weights before the first step, and collects alarms.
class Planter : public Observer {
 public:
  explicit Planter(std::function<void(Trainer&)> plant) : plant_(std::move(plant)) {}
  std::vector<std::string> begin(Trainer& trainer, const io::Path&) override {
    if (plant_) plant_(trainer);
    return {};
  }
  void note_alarm(const Alarm& alarm) override { alarms.push_back(alarm); }
  std::vector<std::string> after_step(Trainer&, const data::Tokens&, const StepResult&) override {
    return {};
  }
  std::vector<Alarm> alarms;

 private:
  std::function<void(Trainer&)> plant_;
};

struct Watched {
  std::vector<Alarm> alarms;
  std::string failure;

  std::vector<Cause> causes() const {
    std::vector<Cause> all;
    for (const Alarm& one : alarms) all.push_back(one.cause);
    return all;
  }
};

Watched watched_run(Config config, const testing::TemporaryFolder& folder,
                    const std::function<void(Trainer&)>& plant = {}) {
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  config.run.sample = 0;
  config.run.eval_every = 0;
  Planter planter(plant);
  const RunResult result = run(config, Progress::Mode::quiet, &planter);
  return {planter.alarms, result.failure};
}

Config watched_config(const std::string& precision, int64_t steps = 30) {
  Config config = small_config(precision);
  config.train.steps = steps;
  return config;
}

// Multiplies the parameters whose names contain `part`.
std::function<void(Trainer&)> scaled(const std::string& part, double factor) {
  return [part, factor](Trainer& trainer) {
    const NoGrad no_grad;
    for (const auto& [name, parameter] : trainer.model().named_parameters()) {
      if (name.find(part) != std::string::npos) copy_(parameter, parameter.detach() * factor);
    }
  };
}

class Quiet : public ::testing::TestWithParam<const char*> {};

TEST_P(Quiet, ModelOfZeros) {
  const testing::TemporaryFolder folder;
  const Watched run = watched_run(watched_config(GetParam(), 6), folder, scaled("", 0));
  EXPECT_THAT(run.causes(), ElementsAre(Cause::no_gradient));
  EXPECT_NE(run.failure, "");
}

TEST_P(Quiet, OutputLayerTimes3000) {
  const testing::TemporaryFolder folder;
  Config config = watched_config(GetParam(), 6);
  config.model.tied_head = false;
  const Watched run = watched_run(config, folder, scaled("head", 3000));
  ASSERT_FALSE(run.alarms.empty());
  EXPECT_EQ(run.alarms[0].cause, Cause::first_loss);
  EXPECT_EQ(run.alarms[0].step, 1);
  EXPECT_EQ(run.alarms[0].module, "head");
}

TEST_P(Quiet, LearningRateOf3) {
  const testing::TemporaryFolder folder;
  Config config = watched_config(GetParam(), 12);
  config.train.lr = 3;
  const Watched run = watched_run(config, folder);
  ASSERT_FALSE(run.alarms.empty());
  EXPECT_EQ(run.alarms[0].cause, Cause::divergence);
  EXPECT_LE(run.alarms[0].step, 8);
}

TEST_P(Quiet, ClippedAway) {
  const testing::TemporaryFolder folder;
  Config config = watched_config(GetParam(), 8);
  config.train.clip = 1e-12;
  const Watched run = watched_run(config, folder);
  EXPECT_THAT(run.causes(), ElementsAre(Cause::small_gradient));
  EXPECT_EQ(run.failure, "");
}

TEST_P(Quiet, RoundedAway) {
  const testing::TemporaryFolder folder;
  Config config = watched_config(GetParam());
  config.train.lr = 1e-12;
  EXPECT_THAT(watched_run(config, folder).causes(), ElementsAre(Cause::stalled));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Quiet, ::testing::Values("fp32", "bf16", "fp16", "fp8"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TrainerWatch, FailsARunThatOnlySkips) {
  const testing::TemporaryFolder folder;
  const Watched run = watched_run(watched_config("fp32", 6), folder, scaled("mlp", 1e30));
  EXPECT_EQ(run.failure, "all 6 steps were skipped, so nothing was learned");
}

struct HealthyRun {
  std::string name;
  std::function<void(Config&)> change;
};

std::vector<HealthyRun> healthy_runs() {
  std::vector<HealthyRun> runs;
  for (const char* precision : {"fp32", "tf32", "bf16", "fp16", "fp8"})
    runs.push_back({precision, [precision](Config& config) {
                      config.precision.matmul = parse_precision(precision);
                    }});
  for (int seed = 1; seed <= 4; ++seed)
    runs.push_back({"seed_" + std::to_string(seed), [seed](Config& config) {
                      config.train.seed = seed;
                      config.train.batch = 1;
                    }});
  const auto optimizer = [](OptimizerKind kind, double lr) {
    return [kind, lr](Config& config) {
      config.train.optimizer = kind;
      config.train.lr = lr;
    };
  };
  runs.push_back({"lion", optimizer(OptimizerKind::lion, 4e-4)});
  runs.push_back({"nadam", optimizer(OptimizerKind::nadam, 4e-3)});
  runs.push_back({"adafactor", optimizer(OptimizerKind::adafactor, 4e-3)});
  runs.push_back({"muon", optimizer(OptimizerKind::muon, 4e-3)});
  runs.push_back({"masters", [](Config& config) {
                    config.precision.matmul = parse_precision("bf16");
                    config.precision.params = ParameterStorage::masters;
                  }});
  runs.push_back({"split", [](Config& config) {
                    config.precision.matmul = parse_precision("bf16");
                    config.precision.params = ParameterStorage::split;
                  }});
  runs.push_back({"llama", [](Config& config) { config.model.family = ModelFamily::llama; }});
  runs.push_back({"no_warmup", [](Config& config) {
                    config.train.lr = 1e-2;
                    config.train.warmup = 0;
                  }});
  runs.push_back({"long_warmup", [](Config& config) { config.train.warmup = 40; }});
  runs.push_back({"low_rate", [](Config& config) { config.train.lr = 1e-6; }});
  runs.push_back({"no_clipping", [](Config& config) { config.train.clip = 0; }});
  runs.push_back({"strict_clipping", [](Config& config) { config.train.clip = 1e-3; }});
  runs.push_back({"scale_that_grows_fast", [](Config& config) {
                    config.precision.matmul = parse_precision("fp16");
                    config.precision.scale_growth_interval = 5;
                    config.precision.scale_init = 0x1p20;
                  }});
  runs.push_back({"accumulation", [](Config& config) { config.train.accumulate = 3; }});
  return runs;
}

TEST(TrainerWatch, IsSilentInHealthyRuns) {
  for (const HealthyRun& one : healthy_runs()) {
    const testing::TemporaryFolder folder;
    Config config = watched_config("fp32", 45);
    one.change(config);
    const Watched run = watched_run(config, folder);
    EXPECT_THAT(run.causes(), IsEmpty()) << one.name;
    EXPECT_EQ(run.failure, "") << one.name;
  }
}

// The first loss of a trained model is far below that of guessing.
TEST(TrainerWatch, IsSilentInFineTuning) {
  const testing::TemporaryFolder folder;
  Config config = watched_config("fp32", 60);
  watched_run(config, folder);
  config.model.init_from = (folder / "run").string();
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "tuned").string();
  config.train.lr = 1e-4;
  config.train.steps = 30;
  Planter planter({});
  EXPECT_EQ(run(config, Progress::Mode::quiet, &planter).failure, "");
  EXPECT_THAT(planter.alarms, IsEmpty());
}

// Alarms of the steps before a resume are not raised again, and its failure stays.
TEST(TrainerWatch, ContinuesInAResumedRun) {
  const testing::TemporaryFolder folder;
  Config config = watched_config("fp32", 6);
  watched_run(config, folder, scaled("", 0));
  config.data.source = (folder / "text.txt").string();
  config.run.out = (folder / "run").string();
  config.run.resume = true;
  Planter planter({});
  EXPECT_NE(run(config, Progress::Mode::quiet, &planter).failure, "");  // it was finished
  config.train.steps = 9;
  const RunResult longer = run(config, Progress::Mode::quiet, &planter);
  EXPECT_EQ(longer.steps, 9);
  EXPECT_NE(longer.failure, "");
  EXPECT_THAT(planter.alarms, IsEmpty());
}

}  // namespace
}  // namespace binade::train
