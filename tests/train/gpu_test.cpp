#include <gtest/gtest.h>

#include <cmath>

#include "binade/backend/attention.h"
#include "binade/backend/gpu.h"
#include "binade/data/batches.h"
#include "binade/train/trainer.h"
#include "support/values.h"
#include "train/small_run.h"

// The same runs on the CPU and on a GPU, if there is one.
namespace binade::train {
namespace {

struct Trained {
  std::vector<double> losses;
  int64_t skipped = 0;
  StateDict state;
};

Trained train(const Config& config, Device device) {
  Config here = config;
  here.train.device = device;
  const data::Tokens tokens = data::Tokens::of_bytes(small_text());
  Trainer trainer(here);
  Trained run;
  for (int64_t i = 0; i < config.train.steps; ++i) {
    trainer.start_step(tokens);
    for (const StepResult& result :
         i + 1 == config.train.steps ? trainer.finish_all() : trainer.finished())
      run.losses.push_back(result.loss);
  }
  run.skipped = trainer.skipped();
  run.state = trainer.state_dict();
  return run;
}

class TrainingGpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};

Config hundred_steps(const std::string& precision) {
  Config config = small_config(precision);
  config.model.width = 64;
  config.model.heads = config.model.kv_heads = 4;
  config.model.hidden = 256;
  config.model.context = 32;
  config.train.steps = 100;
  config.precision.scale_growth_interval = 20;
  config.train.lr = 1e-3;
  return config;
}

// Sums in another order round differently; over 100 steps of a falling loss the difference stays
// within a thousandth (fp8: a hundredth, since neighboring e4m3 values differ by up to 1/8).
TEST_P(TrainingGpu, FollowsTheCpu) {
  const std::string precision = GetParam();
  const Config config = hundred_steps(precision);
  const Trained cpu = train(config, Device::cpu()), gpu = train(config, Device::cuda());
  ASSERT_EQ(gpu.losses.size(), 100u);
  const double tolerance = precision == "fp8" ? 1e-2 : 1e-3;
  for (size_t i = 0; i < gpu.losses.size(); ++i)
    ASSERT_NEAR(gpu.losses[i], cpu.losses[i], tolerance * cpu.losses[i]) << "step " << i + 1;
  EXPECT_LT(gpu.losses.back(), 0.8 * gpu.losses.front());
  EXPECT_EQ(gpu.skipped, cpu.skipped);
}

TEST_P(TrainingGpu, GivesTheSameBitsTwice) {
  Config config = hundred_steps(GetParam());
  config.train.steps = 10;
  const Trained one = train(config, Device::cuda()), two = train(config, Device::cuda());
  EXPECT_EQ(one.losses, two.losses);
  ASSERT_EQ(one.state.size(), two.state.size());
  for (const auto& [name, tensor] : one.state)
    EXPECT_TRUE(test::same_bits(tensor, two.state.at(name))) << name;
}

// Kept results come from the forward's kernels, computed ones from the backward's: the same values
// up to a rounding, so the tolerance is that of FollowsTheCpu.
TEST_P(TrainingGpu, KeptActivationsFollowTheCpuAndTakeMemory) {
  const std::string precision = GetParam();
  for (const ModelFamily family : {ModelFamily::gpt2, ModelFamily::llama}) {
    Config config = hundred_steps(precision);
    config.model.family = family;
    config.train.steps = 20;
    config.train.batch = 16;
    const auto peak = [&](int64_t kept) {
      config.train.activations = nn::Activations{.kept = kept};
      memory::reset_peak(Device::cuda());
      const int64_t before = memory::allocated(Device::cuda());
      const Trained gpu = train(config, Device::cuda());
      const Trained cpu = train(config, Device::cpu());
      const double tolerance = precision == "fp8" ? 1e-2 : 1e-3;
      for (size_t i = 0; i < gpu.losses.size(); ++i)
        EXPECT_NEAR(gpu.losses[i], cpu.losses[i], tolerance * cpu.losses[i]) << "step " << i + 1;
      return memory::peak(Device::cuda()) - before;
    };
    EXPECT_LT(peak(0), peak(config.model.layers));
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, TrainingGpu,
                         ::testing::Values("fp32", "tf32", "bf16", "fp16", "fp8"));

class Fp8TrainingGpu : public TrainingGpu {};

TEST_P(Fp8TrainingGpu, FollowsTheCpu) {
  Config config = hundred_steps("fp8");
  config.precision.recipe = amp::parse_recipe(GetParam());
  const Trained cpu = train(config, Device::cpu()), gpu = train(config, Device::cuda());
  ASSERT_EQ(gpu.losses.size(), 100u);
  for (size_t i = 0; i < gpu.losses.size(); ++i)
    ASSERT_NEAR(gpu.losses[i], cpu.losses[i], 1e-2 * cpu.losses[i]) << "step " << i + 1;
  EXPECT_LT(gpu.losses.back(), 0.8 * gpu.losses.front());
}

INSTANTIATE_TEST_SUITE_P(Recipes, Fp8TrainingGpu,
                         ::testing::Values("current", "row", "block", "mx"));

class OverflowGpu : public TrainingGpu {};

// An initial scale far too large: steps are skipped and counted on the device, and reported later.
TEST_P(OverflowGpu, SkipsAndCountsAsTheCpuDoes) {
  Config config = hundred_steps("fp16");
  config.train.steps = 12;
  config.precision.scale_init = 0x1p40;
  const Trained cpu = train(config, Device::cpu()), gpu = train(config, Device::cuda());
  EXPECT_GT(gpu.skipped, 0);
  EXPECT_EQ(gpu.skipped, cpu.skipped);
  EXPECT_EQ(test::read(gpu.state.at("optimizer.steps")),
            test::read(cpu.state.at("optimizer.steps")));
  EXPECT_EQ(test::read(gpu.state.at("scaler.scale")), test::read(cpu.state.at("scaler.scale")));
}

// The host launches steps faster than the GPU runs them: nothing in a step waits for results.
TEST_P(OverflowGpu, SteadyStepsNeverWait) {
  Config config = hundred_steps("fp16");
  config.train.device = Device::cuda();
  config.model.width = 256;
  config.model.context = 256;
  config.train.batch = 16;
  for (const GraphMode graph : {GraphMode::off, GraphMode::on}) {
    config.train.graph = graph;
    const data::Tokens tokens = data::Tokens::of_bytes(small_text() + small_text());
    Trainer trainer(config);
    for (int i = 0; i < 4; ++i) trainer.start_step(tokens);
    trainer.finish_all();
    const int64_t before = backend::host_waits();
    for (int i = 0; i < 2; ++i) trainer.start_step(tokens);  // as far ahead as a run goes
    EXPECT_EQ(backend::host_waits(), before) << "graph " << name_in(graph_names, graph);
    trainer.finish_all();
    // Two graphs are launched long before they have run, so asking for their results waits.
    if (graph == GraphMode::on) {
      EXPECT_GT(backend::host_waits(), before);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Once, OverflowGpu, ::testing::Values("fp16"));

// ---- steps that are replays of a captured graph ----

struct GraphCase {
  const char* name;
  const char* precision;
  void (*change)(Config& config) = [](Config&) {};
};

std::ostream& operator<<(std::ostream& out, const GraphCase& of) { return out << of.name; }

class GraphGpu : public ::testing::TestWithParam<GraphCase> {
 protected:
  void SetUp() override {
    if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
    config = hundred_steps(GetParam().precision);
    config.train.device = Device::cuda();
    config.train.steps = 12;
    GetParam().change(config);
  }

  // With a validation after step 6 and a state_dict() after step 8, which flushes FP8 histories.
  Trained trained(GraphMode graph) {
    config.train.graph = graph;
    const data::Tokens tokens = data::Tokens::of_bytes(small_text());
    Trainer trainer(config);
    Trained run;
    for (int64_t i = 1; i <= config.train.steps; ++i) {
      trainer.start_step(tokens);
      EXPECT_EQ(trainer.uses_graph(), graph == GraphMode::on && i > 2) << "step " << i;
      const bool stop = i == 6 || i == 8 || i == config.train.steps;
      for (const StepResult& result : stop ? trainer.finish_all() : trainer.finished()) {
        run.losses.push_back(result.loss);
        run.losses.push_back(result.gradient_norm);
        run.losses.push_back(result.scale);
        run.losses.push_back(result.applied ? 1 : 0);
      }
      if (i == 6) run.losses.push_back(trainer.evaluate(tokens).loss);
      if (i == 8) trainer.state_dict();
    }
    run.skipped = trainer.skipped();
    for (const auto& [name, tensor] : trainer.model().named_parameters())
      run.state["weight." + name] = test::on_host(tensor);
    for (const auto& [name, tensor] : trainer.state_dict()) run.state[name] = test::on_host(tensor);
    return run;
  }

  Config config;
};

TEST_P(GraphGpu, GivesTheBitsOfStepsWithoutOne) {
  const Trained eager = trained(GraphMode::off), captured = trained(GraphMode::on);
  // Norms of skipped steps are NaN, which does not compare equal.
  ASSERT_EQ(captured.losses.size(), eager.losses.size());
  for (size_t i = 0; i < eager.losses.size(); ++i) {
    if (std::isnan(eager.losses[i]) && std::isnan(captured.losses[i])) continue;
    EXPECT_EQ(captured.losses[i], eager.losses[i]) << "number " << i;
  }
  EXPECT_EQ(captured.skipped, eager.skipped);
  if (config.precision.scale_init >
      65536) {  // some of each in the graph, whose first step is the third
    EXPECT_GT(captured.skipped, 3);
    EXPECT_LT(captured.skipped, config.train.steps);
  }
  ASSERT_EQ(captured.state.size(), eager.state.size());
  for (const auto& [name, tensor] : eager.state)
    EXPECT_TRUE(test::same_bits(captured.state.at(name), tensor)) << name;
}

TEST_P(GraphGpu, AllocatesNothingMoreAndBooksTheSamePeak) {
  config.train.graph = GraphMode::on;
  const data::Tokens tokens = data::Tokens::of_bytes(small_text());
  const auto statistics = [] { return memory::statistics(Device::cuda()); };
  Trainer trainer(config);
  for (int i = 0; i < 2; ++i) trainer.step(tokens);
  memory::reset_peak(Device::cuda());
  trainer.step(tokens);  // captured
  const memory::Statistics captured = statistics();
  memory::reset_peak(Device::cuda());
  for (int i = 0; i < 3; ++i) trainer.step(tokens);
  EXPECT_EQ(statistics().misses, captured.misses);
  EXPECT_EQ(statistics().allocated, captured.allocated);
  EXPECT_EQ(statistics().peak, captured.peak);
}

// Documents of other lengths in every step; learned positions and rotary ones.
TEST(PackedGraphGpu, GivesTheBitsOfStepsWithoutOne) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  if (!backend::attends_documents(DType::bf16, 64, Device::cuda()))
    GTEST_SKIP() << "the GPU has no kernels for documents";
  for (const ModelFamily model : {ModelFamily::gpt2, ModelFamily::llama}) {
    Config config = hundred_steps("bf16");
    config.train.device = Device::cuda();
    config.model.family = model;
    config.model.width = 128;
    config.model.heads = 2;
    config.model.kv_heads = model == ModelFamily::llama ? 1 : 2;
    config.model.context = 72;
    config.train.batch = 3;
    config.data.pack = true;
    const data::Tokens tokens = data::Tokens::of_bytes(small_text());
    std::vector<double> losses[2];
    for (const GraphMode graph : {GraphMode::off, GraphMode::on}) {
      config.train.graph = graph;
      Trainer trainer(config);
      for (int64_t i = 1; i <= 8; ++i) {
        data::Batch batch =
            data::training_batch(tokens, {config.train.batch, config.model.context}, 1, i, 0);
        batch.documents = {0, 5 * i, 72, 144 - i, 144, 150 + i, 216};
        trainer.start_step(std::span(&batch, 1));
        EXPECT_EQ(trainer.uses_graph(), graph == GraphMode::on && i > 2) << "step " << i;
      }
      for (const StepResult& result : trainer.finish_all()) {
        losses[graph == GraphMode::on].push_back(result.loss);
        losses[graph == GraphMode::on].push_back(result.gradient_norm);
      }
      data::Batch bad =
          data::training_batch(tokens, {config.train.batch, config.model.context}, 1, 9, 0);
      bad.documents = {0, 300};
      EXPECT_THROW(trainer.start_step(std::span(&bad, 1)), Error);
    }
    EXPECT_EQ(losses[1], losses[0]);
    EXPECT_FALSE(losses[0].empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Steps, GraphGpu,
    ::testing::Values(
        GraphCase{"fp32", "fp32"}, GraphCase{"bf16", "bf16"},
        GraphCase{"bf16_masters", "bf16",
                  [](Config& c) { c.precision.params = ParameterStorage::masters; }},
        GraphCase{"bf16_split", "bf16",
                  [](Config& c) { c.precision.params = ParameterStorage::split; }},
        GraphCase{"bf16_accumulate", "bf16", [](Config& c) { c.train.accumulate = 2; }},
        GraphCase{"bf16_recompute", "bf16",
                  [](Config& c) { c.train.activations = nn::Activations::recompute(); }},
        GraphCase{"fp8_bf16_gradients", "fp8",
                  [](Config& c) {
                    c.precision.params = ParameterStorage::masters;
                    c.precision.gradients = DType::bf16;
                  }},
        GraphCase{"bf16_kept", "bf16",
                  [](Config& c) { c.train.activations = nn::Activations{.kept = 1}; }},
        GraphCase{"bf16_llama", "bf16", [](Config& c) { c.model.family = ModelFamily::llama; }},
        GraphCase{"fp16_skips", "fp16", [](Config& c) { c.precision.scale_init = 0x1p27; }},
        GraphCase{"fp16_grows", "fp16", [](Config& c) { c.precision.scale_growth_interval = 2; }},
        GraphCase{"fp8", "fp8"},
        GraphCase{"fp8_accumulate", "fp8", [](Config& c) { c.train.accumulate = 2; }},
        GraphCase{"fp8_current", "fp8",
                  [](Config& c) { c.precision.recipe = amp::recipes::current(); }},
        GraphCase{"fp8_block", "fp8",
                  [](Config& c) { c.precision.recipe = amp::recipes::block(); }}),
    [](const auto& info) { return std::string(info.param.name); });

// Kernel launches limit small models, so a graph pays.
TEST(AutoGraphGpu, CapturesASmallModelsSteps) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  Config config = hundred_steps("bf16");
  config.train.device = Device::cuda();
  const data::Tokens tokens = data::Tokens::of_bytes(small_text());
  Trainer trainer(config);
  for (int i = 0; i < 4; ++i) trainer.step(tokens);
  EXPECT_TRUE(trainer.uses_graph());
}

}  // namespace
}  // namespace binade::train
