#include "binade/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/data/batches.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/optim/adam.h"
#include "binade/optim/clip.h"
#include "support/values.h"
#include "train/small_run.h"

// A step of the Trainer against the same step written out in public calls.
namespace binade::train {
namespace {

using ::testing::HasSubstr;

// What one step did, and the weights after the last.
struct Trace {
  std::vector<double> losses, norms, rates, scales;
  std::vector<bool> applied;
  std::map<std::string, std::vector<double>> weights;
};

constexpr double strong_clip = 0.05;  // under every gradient norm of these runs
// Too high for f16 at first, and again whenever it has grown.
constexpr double overflowing_scale = 0x1p22;

struct StepCase {
  std::string name;
  Config config;
  // Steps before which a weight is made infinite, until the next one.
  std::vector<int64_t> poisoned = {};
};

Config config_of(const std::string& precision, ParameterStorage params, int64_t accumulate,
                 double clip) {
  Config config = small_config(precision);
  config.train.steps = 8;
  config.train.warmup = 3;
  config.train.lr = 1e-2;
  config.precision.params = params;
  config.train.accumulate = accumulate;
  config.train.clip = clip;
  return config;
}

std::vector<StepCase> runs() {
  std::vector<StepCase> result;
  for (const char* precision : {"fp32", "tf32", "bf16", "fp16", "fp8"}) {
    result.push_back({precision, config_of(precision, ParameterStorage::autocast, 1, 1)});
    // Clips every step, by far.
    result.push_back({precision + std::string("_accumulated"),
                      config_of(precision, ParameterStorage::autocast, 3, strong_clip)});
  }
  for (const char* precision : {"bf16", "fp16", "fp8"})
    result.push_back({precision + std::string("_masters"),
                      config_of(precision, ParameterStorage::masters, 2, strong_clip)});
  StepCase hidden{"fp8_hidden", config_of("fp8", ParameterStorage::masters, 2, strong_clip)};
  hidden.config.model.family = ModelFamily::llama;
  hidden.config.precision.recipe.set_hidden(true);
  result.push_back(hidden);
  result.push_back({"fp32_unclipped", config_of("fp32", ParameterStorage::autocast, 2, 0)});
  result.push_back({"fp16_unclipped", config_of("fp16", ParameterStorage::autocast, 2, 0)});
  StepCase skips{"fp16_overflows", config_of("fp16", ParameterStorage::autocast, 2, strong_clip)};
  skips.config.precision.scale_init = overflowing_scale;
  skips.config.train.schedule = optim::ScheduleKind::linear;
  result.push_back(skips);
  for (const char* precision : {"fp32", "bf16", "fp8"})
    result.push_back({precision + std::string("_not_finite"),
                      config_of(precision, ParameterStorage::autocast, 2, strong_clip),
                      {2, 5}});
  return result;
}

// For its lifetime, one element of a weight is infinite.
class Poison {
 public:
  explicit Poison(const nn::LanguageModel& model)
      : element_(model.head_weight().detach().strided({1}, {1}, 5)), value_(element_.item()) {
    fill_(element_, std::numeric_limits<double>::infinity());
  }
  ~Poison() { fill_(element_, value_); }
  Poison(const Poison&) = delete;
  Poison& operator=(const Poison&) = delete;

 private:
  Tensor element_;
  double value_;
};

bool contains(const std::vector<int64_t>& steps, int64_t step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

template <class Model, class Optimizer>
void keep_weights(Model& model, Optimizer& optimizer, Trace& trace) {
  for (const auto& [name, parameter] : model.named_parameters())
    trace.weights[name] = to_vector(optimizer.master_of(parameter));
}

Trace by_trainer(const StepCase& run) {
  Trainer trainer(run.config);
  Trace trace;
  for (int64_t step = 0; step < run.config.train.steps; ++step) {
    std::optional<Poison> poison;
    if (contains(run.poisoned, step)) poison.emplace(trainer.model());
    const StepResult result = trainer.step(small_tokens());
    EXPECT_EQ(result.step, step + 1);
    EXPECT_EQ(result.reason.empty(), result.applied);
    trace.losses.push_back(result.loss);
    trace.norms.push_back(result.gradient_norm);
    trace.rates.push_back(result.lr);
    trace.scales.push_back(result.scale);
    trace.applied.push_back(result.applied);
    EXPECT_EQ(result.skipped, std::count(trace.applied.begin(), trace.applied.end(), false));
  }
  keep_weights(trainer.model(), trainer.optimizer(), trace);
  return trace;
}

// Linear warmup, then the schedule by the steps applied so far.
double rate_after(const Config& config, int64_t applied) {
  const auto at = static_cast<double>(applied), warmup = static_cast<double>(config.train.warmup);
  if (applied < config.train.warmup) return config.train.lr * (at + 1) / warmup;
  const double progress = (at - warmup) / (static_cast<double>(config.train.steps) - warmup);
  const double low = 0.1 * config.train.lr;
  return config.train.schedule == optim::ScheduleKind::linear
             ? config.train.lr + (low - config.train.lr) * progress
             : low + (config.train.lr - low) * 0.5 * (1 + std::cos(std::acos(-1.0) * progress));
}

// Norms and biases do not decay.
std::vector<optim::AdamGroup> groups_by_name(nn::LanguageModel& model, const Config& config) {
  const optim::AdamOptions options{.lr = config.train.lr,
                                   .beta1 = config.train.beta1,
                                   .beta2 = config.train.beta2,
                                   .weight_decay = config.train.weight_decay};
  optim::AdamGroup decayed{{}, options}, plain{{}, options};
  plain.options.weight_decay = 0;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const bool is_plain = name.ends_with("bias") || name.find("norm") != std::string::npos;
    (is_plain ? plain : decayed).parameters.push_back(parameter);
  }
  EXPECT_GE(plain.parameters.size(), 5u);
  return {decayed, plain};
}

// Adds the gradients of a micro-batch to those before it, and takes them from the parameters.
void add_gradients(std::vector<Tensor>& sums, const std::vector<Tensor>& parameters) {
  const NoGrad no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor gradient = parameters[i].grad();
    if (sums.size() < parameters.size()) {
      sums.push_back(clone(gradient));
    } else {
      sums[i] = sums[i] + gradient;
    }
    parameters[i].zero_grad();
  }
}

Trace by_hand(const StepCase& run) {
  const Config& config = run.config;
  const bool fp8 = config.precision.matmul == Precision::quantized,
             fp16 = config.precision.matmul == Precision::fp16;
  const bool low = fp8 || fp16 || config.precision.matmul == Precision::bf16;
  const DType type = fp16 ? DType::f16 : DType::bf16;
  const amp::MatmulPrecisionGuard matmuls(config.precision.matmul == Precision::tf32
                                              ? amp::MatmulPrecision::high
                                              : amp::MatmulPrecision::highest);
  nn::LanguageModel model(
      model_config(config),
      {Device::cpu(), config.precision.params == ParameterStorage::masters ? type : DType::f32});
  optim::AdamW optimizer(groups_by_name(model, config));
  amp::GradScaler scaler({.enabled = fp16,
                          .init_scale = config.precision.scale_init,
                          .growth_interval = config.precision.scale_growth_interval});
  Trace trace;
  int64_t applied = 0;
  for (int64_t step = 0; step < config.train.steps; ++step) {
    std::optional<Poison> poison;
    if (contains(run.poisoned, step)) poison.emplace(model);
    optimizer.zero_grad();
    double mean = 0;
    std::vector<Tensor> sums;
    const double fraction = 1.0 / static_cast<double>(config.train.accumulate);
    for (int64_t micro = 0; micro < config.train.accumulate; ++micro) {
      const data::Batch batch =
          data::training_batch(small_tokens(), {config.train.batch, config.model.context},
                               static_cast<uint64_t>(config.train.seed), step, micro);
      Tensor loss;
      {
        const amp::Autocast autocast(type, {.enabled = low});
        const amp::QuantizedAutocast in_fp8(
            amp::RecipeState{.enabled = fp8, .recipe = config.precision.recipe});
        loss = model.loss(batch.tokens, batch.targets);
      }
      mean += loss.item() * fraction;
      scaler.scale(loss * fraction).backward();
      add_gradients(sums, optimizer.parameters());
    }
    for (size_t i = 0; i < sums.size(); ++i) optimizer.parameters()[i].set_grad(sums[i]);
    scaler.unscale(optimizer);
    const double norm = optim::grad_norm(optimizer.parameters()).item();
    if (config.train.clip > 0) optim::clip_grad_norm(optimizer.parameters(), config.train.clip);
    optimizer.set_lr(rate_after(config, applied));
    trace.losses.push_back(mean);
    trace.norms.push_back(norm);
    trace.rates.push_back(rate_after(config, applied));
    trace.scales.push_back(scaler.get_scale());
    if (fp16) {
      trace.applied.push_back(scaler.step(optimizer).applied());
      scaler.update();
    } else {
      trace.applied.push_back(std::isfinite(norm));
      if (trace.applied.back()) optimizer.step();
    }
    applied += trace.applied.back() ? 1 : 0;
  }
  keep_weights(model, optimizer, trace);
  return trace;
}

void expect_same(const std::vector<double>& found, const std::vector<double>& expected,
                 double relative, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool alike = std::isfinite(expected[i])
                           ? std::abs(found[i] - expected[i]) <= relative * std::abs(expected[i])
                           : std::isfinite(found[i]) == std::isfinite(expected[i]);
    EXPECT_TRUE(alike) << what << " of step " << i + 1 << ": expected " << expected[i] << ", found "
                       << found[i];
  }
}

// The run met what it is there for.
void expect_events(const StepCase& run, const Trace& trace) {
  const auto skipped = std::count(trace.applied.begin(), trace.applied.end(), false);
  if (run.config.precision.scale_init == overflowing_scale) {
    EXPECT_GT(skipped, 2);
    EXPECT_LT(skipped, 7);
    EXPECT_FALSE(std::is_sorted(trace.scales.rbegin(), trace.scales.rend()));  // it grew again
  } else {
    EXPECT_EQ(skipped, static_cast<int64_t>(run.poisoned.size()));
  }
  for (size_t i = 0; i < trace.norms.size(); ++i) {
    if (run.config.train.clip != strong_clip || !trace.applied[i]) continue;
    EXPECT_GT(trace.norms[i], 2 * strong_clip);
  }
}

class TrainerStep : public ::testing::TestWithParam<StepCase> {};

TEST_P(TrainerStep, IsTheLoopWrittenByHand) {
  const Trace found = by_trainer(GetParam()), expected = by_hand(GetParam());
  expect_events(GetParam(), expected);
  EXPECT_EQ(found.applied, expected.applied);
  EXPECT_EQ(found.scales, expected.scales);
  EXPECT_EQ(found.norms.size(), 8u);
  expect_same(found.norms, expected.norms, 0, "norm");
  // The mean of the losses is summed in another order, and the rates come from another formula.
  expect_same(found.losses, expected.losses, 4 * epsilon(DType::f64), "loss");
  expect_same(found.rates, expected.rates, 8 * epsilon(DType::f64), "rate");
  ASSERT_EQ(found.weights.size(), expected.weights.size());
  for (const auto& [name, values] : expected.weights)
    EXPECT_EQ(found.weights.at(name), values) << name;
}

INSTANTIATE_TEST_SUITE_P(Precisions, TrainerStep, ::testing::ValuesIn(runs()),
                         [](const auto& info) { return info.param.name; });

// --- FP8 data between the layers of an MLP ---

// Recompute stores them again with the scales of the first pass, and a checkpoint has their scales.
TEST(TrainerFp8Hidden, HasTheSameBitsRecomputedAndResumed) {
  Config config = config_of("fp8", ParameterStorage::masters, 2, 1);
  config.model.family = ModelFamily::llama;
  Trainer without(config);
  config.precision.recipe.set_hidden(true);
  Trainer straight(config), stopped(config), resumed(config);
  config.train.activations = nn::Activations::recompute();
  Trainer recomputed(config);
  std::vector<double> losses[4];
  for (int64_t step = 0; step < 6; ++step) {
    if (step == 3) {
      const StateDict model = stopped.model().state_dict();
      EXPECT_TRUE(model.contains("blocks.1.mlp.up.scales.hidden.history"));
      EXPECT_FALSE(model.contains("blocks.1.mlp.down.scales.hidden.history"));
      resumed.model().load_state_dict(model);
      resumed.load_state_dict(stopped.state_dict());
    }
    losses[0].push_back(straight.step(small_tokens()).loss);
    losses[1].push_back((step < 3 ? stopped : resumed).step(small_tokens()).loss);
    losses[2].push_back(recomputed.step(small_tokens()).loss);
    losses[3].push_back(without.step(small_tokens()).loss);
  }
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
  // Another rounding, of three bits, but the same training.
  EXPECT_NE(losses[3], losses[0]);
  EXPECT_NEAR(losses[3].back(), losses[0].back(), 0.05 * losses[3].back());
}

// --- the learning rate ---

Config overflowing() {
  Config config = config_of("fp16", ParameterStorage::autocast, 1, 1);
  config.precision.scale_init = overflowing_scale;
  return config;
}

// A schedule of warmup 3 and 8 steps that lost some of its steps at the start.
TEST(TrainerLearningRate, FollowsAppliedStepsAlone) {
  const Config config = overflowing();
  Trainer trainer(config);
  int64_t applied = 0;
  for (int64_t step = 0; step < config.train.steps; ++step) {
    const StepResult result = trainer.step(small_tokens());
    EXPECT_NEAR(result.lr, rate_after(config, applied), 1e-15) << "step " << result.step;
    EXPECT_EQ(trainer.optimizer().lr(), result.lr);
    applied += result.applied ? 1 : 0;
  }
  EXPECT_LT(applied, config.train.steps);
  EXPECT_EQ(trainer.steps() - trainer.skipped(), applied);
  EXPECT_EQ(trainer.optimizer().steps(), applied);
}

// Nobody asks for the outcomes before the last step.
TEST(TrainerLearningRate, IsTheSameIfOutcomesAreReadLate) {
  const Config config = overflowing();
  Trainer early(config), late(config);
  std::vector<StepResult> expected;
  for (int64_t step = 0; step < config.train.steps; ++step) {
    expected.push_back(early.step(small_tokens()));
    late.start_step(small_tokens());
  }
  const std::vector<StepResult> found = late.finish_all();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].step, expected[i].step);
    EXPECT_EQ(found[i].skipped, expected[i].skipped);
    EXPECT_EQ(found[i].lr, expected[i].lr);
    EXPECT_EQ(found[i].loss, expected[i].loss);
    EXPECT_EQ(found[i].applied, expected[i].applied);
  }
  EXPECT_TRUE(late.finish_all().empty());
}

TEST(TrainerLearningRate, GoesOnWhereASavedRunHadCome) {
  const Config config = overflowing();
  Trainer straight(config), stopped(config), resumed(config);
  for (int64_t step = 0; step < 5; ++step) {
    straight.step(small_tokens());
    stopped.step(small_tokens());
  }
  ASSERT_GT(stopped.skipped(), 0);
  ASSERT_LT(stopped.skipped(), 5);
  resumed.model().load_state_dict(stopped.model().state_dict());
  resumed.load_state_dict(stopped.state_dict());
  for (int64_t step = 5; step < 8; ++step) {
    const StepResult expected = straight.step(small_tokens()), found = resumed.step(small_tokens());
    EXPECT_EQ(found.lr, expected.lr);
    EXPECT_EQ(found.lr,
              schedule(config).at(resumed.steps() - 1 - (found.skipped - (found.applied ? 0 : 1))));
    EXPECT_EQ(found.loss, expected.loss);
  }
}

// --- other optimizers ---

// Each trains, and its state brings back the run bit for bit, with 16-bit parameters, too.
TEST(TrainerOptimizers, ResumeBitForBit) {
  for (const auto& [name, kind] : optimizer_names) {
    for (const ParameterStorage params :
         {ParameterStorage::autocast, ParameterStorage::masters, ParameterStorage::split}) {
      SCOPED_TRACE(name);
      Config config = config_of("bf16", params, 1, 1);
      config.train.optimizer = kind;
      if (kind == OptimizerKind::adamw) config.precision.moments = DType::u8;
      if (kind == OptimizerKind::adafactor) config.train.lr = 0.3;  // relative to the weights' size
      Trainer straight(config), stopped(config), resumed(config);
      double first = 0, last = 0;
      for (int64_t step = 0; step < 4; ++step) {
        const StepResult result = straight.step(small_tokens());
        first = step == 0 ? result.loss : first;
        stopped.step(small_tokens());
      }
      resumed.model().load_state_dict(stopped.model().state_dict());
      resumed.load_state_dict(stopped.state_dict());
      for (int64_t step = 4; step < 8; ++step) {
        const StepResult expected = straight.step(small_tokens());
        EXPECT_EQ(resumed.step(small_tokens()).loss, expected.loss);
        last = expected.loss;
      }
      EXPECT_LT(last, first);
      const StateDict a = straight.state_dict(), b = resumed.state_dict();
      ASSERT_EQ(a.size(), b.size());
      for (const auto& [entry, tensor] : a)
        EXPECT_EQ(to_vector(b.at(entry)), to_vector(tensor)) << entry;
    }
  }
}

// Muon has the blocks' matrices, AdamW the rest with two moments.
TEST(TrainerOptimizers, MuonUpdatesTheBlocksMatrices) {
  Config config = config_of("fp32", ParameterStorage::autocast, 1, 1);
  config.train.optimizer = OptimizerKind::muon;
  Trainer trainer(config);
  trainer.step(small_tokens());
  const StateDict state = trainer.optimizer().state_dict();
  const auto updated = trainer.optimizer().parameters();
  for (size_t i = 0; i < updated.size(); ++i) {
    std::string name;
    for (const auto& [path, parameter] : trainer.model().named_parameters()) {
      if (parameter.same_as(updated[i])) name = path;
    }
    const bool is_hidden = name.starts_with("blocks.") && updated[i].rank() == 2;
    EXPECT_EQ(state.contains(std::to_string(i) + ".second"), !is_hidden) << name;
  }
  EXPECT_EQ(updated.size(), trainer.model().parameters().size());
}

// --- the rest ---

TEST(Trainer, TakesTheSameStepsFromALoader) {
  const Config config = config_of("bf16", ParameterStorage::autocast, 2, 1);
  Trainer by_tokens(config), by_loader(config);
  data::Loader loader(small_tokens(), {.shape = {config.train.batch, config.model.context},
                                       .accumulate = config.train.accumulate,
                                       .seed = static_cast<uint64_t>(config.train.seed)});
  for (int64_t step = 0; step < 3; ++step) {
    const StepResult a = by_tokens.step(small_tokens()), b = by_loader.step(loader);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  }
}

TEST(Trainer, ValidatesOnTheMeanOfItsBatchesAndChangesNothing) {
  Config config = small_config("bf16");
  config.run.eval_batches = 3;
  Trainer trainer(config);
  trainer.step(small_tokens());
  double expected = 0;
  {
    const NoGrad no_grad;
    const amp::Autocast autocast(DType::bf16);
    for (int64_t i = 0; i < 3; ++i) {
      const data::Batch batch =
          data::validation_batch(small_tokens(), {config.train.batch, config.model.context}, i, 3);
      expected += trainer.model().loss(batch.tokens, batch.targets).item() / 3;
    }
  }
  const auto weights = to_vector(trainer.model().head_weight());
  EXPECT_NEAR(trainer.evaluate(small_tokens()).loss, expected, 4 * epsilon(DType::f64) * expected);
  EXPECT_EQ(to_vector(trainer.model().head_weight()), weights);
  EXPECT_EQ(trainer.steps(), 1);
}

TEST(Trainer, ValidatesWithoutDropoutAndGoesOnWithIt) {
  Config config = small_config("fp32");
  config.train.dropout = 0.5;
  config.run.eval_batches = 2;
  Trainer trainer(config);
  trainer.step(small_tokens());
  const double found = trainer.evaluate(small_tokens()).loss;
  EXPECT_TRUE(trainer.model().training());
  nn::LanguageModel& model = trainer.model();
  model.eval();
  double expected = 0;
  {
    const NoGrad no_grad;
    for (int64_t i = 0; i < 2; ++i) {
      const data::Batch batch =
          data::validation_batch(small_tokens(), {config.train.batch, config.model.context}, i, 2);
      expected += model.loss(batch.tokens, batch.targets).item() / 2;
    }
  }
  EXPECT_NEAR(found, expected, 4 * epsilon(DType::f64) * expected);
  // The next step is in training mode, whatever came before it.
  trainer.step(small_tokens());
  EXPECT_TRUE(model.training());
}

// One batch, given as every micro-batch, has one loss without dropout and several with it.
TEST(Trainer, EveryMicroBatchAndStepHasItsOwnMask) {
  const auto loss_of = [](double dropout, int64_t accumulate, int64_t step) {
    Config config = small_config("fp32");
    config.train.dropout = dropout;
    config.train.accumulate = accumulate;
    config.train.lr = 0;
    Trainer trainer(config);
    const data::Batch batch =
        data::training_batch(small_tokens(), {config.train.batch, config.model.context}, 1, 0, 0);
    double loss = 0;
    for (int64_t i = 0; i <= step; ++i) {
      trainer.start_step(std::vector<data::Batch>(static_cast<size_t>(accumulate), batch));
      loss = trainer.finish_all().back().loss;
    }
    return loss;
  };
  EXPECT_EQ(loss_of(0, 2, 0), loss_of(0, 1, 0));
  EXPECT_EQ(loss_of(0, 1, 1), loss_of(0, 1, 0));
  EXPECT_NE(loss_of(0.5, 2, 0), loss_of(0.5, 1, 0));
  EXPECT_NE(loss_of(0.5, 1, 1), loss_of(0.5, 1, 0));
  EXPECT_EQ(loss_of(0.5, 2, 1), loss_of(0.5, 2, 1));
}

TEST(Trainer, EndsARunThatOnlySkips) {
  Config config = small_config("fp32");
  config.train.steps = 100;
  Trainer trainer(config);
  const Poison poison(trainer.model());
  int64_t steps = 0;
  const std::string message = test::error_of([&] {
    for (; steps < 100; ++steps) trainer.step(small_tokens());
  });
  EXPECT_EQ(steps, 49);
  EXPECT_THAT(message, HasSubstr("50 skipped steps in a row"));
}

TEST(Trainer, RefusesAStateWithoutItsEntries) {
  Trainer trainer(small_config());
  StateDict state = trainer.state_dict();
  state.erase("skipped");
  EXPECT_THAT(test::error_of([&] { trainer.load_state_dict(state); }), HasSubstr("skipped"));
}

}  // namespace
}  // namespace binade::train
