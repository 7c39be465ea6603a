#include "binade/lab/step_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/random.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/train/config/component_options.h"
#include "binade/train/micro_batch.h"
#include "binade/train/trainer.h"

namespace binade::lab {
namespace {

// A model and a configuration that replay the micro-batches of a trainer's step.
struct TrainerReplay {
  Replay how;
  train::Config config;
  amp::RecipeState recipes;
  std::unique_ptr<nn::LanguageModel> copy;
  nn::LanguageModel* model = nullptr;

  // On the trainer's model, or on a copy if its parameters or buffers would change.
  TrainerReplay(train::Trainer& trainer, const Replay& replay)
      : how(replay), config(trainer.config()), recipes(trainer.recipes()), model(&trainer.model()) {
    const bool other_type = replay.f32 || replay.autocast_type;
    if (other_type) {
      config.precision.matmul = replay.f32 ? train::Precision::fp32 : train::Precision::bf16;
      if (replay.f32) {
        config.precision.params = train::ParameterStorage::autocast;
        config.precision.residual = {};
      }
      recipes.enabled = false;
    }
    for (const KeptInF32& one : replay.kept) {
      config.precision.overrides.push_back(
          {.module = one.module, .op = one.op, .run = CastClass::f32});
      if (recipes.enabled) train::exclude(recipes, one.module);
    }
    if (other_type || config.precision.matmul == train::Precision::quantized) copy_model(trainer);
  }

 private:
  void copy_model(train::Trainer& trainer) {
    copy = train::make_model(config, train::placement(config));
    // Not strict without a recipe, when the copy has no buffers for the model's scales.
    copy->load_state_dict(trainer.model().state_dict(),
                          config.precision.matmul == train::Precision::quantized);
    model = copy.get();
  }
};

bool same_replay(const Replay& a, const Replay& b) {
  return a.f32 == b.f32 && a.widens == b.widens && a.autocast_type == b.autocast_type &&
         a.kept == b.kept;
}

// Replays one micro-batch in several ways. Keeps the last other one besides the run's own.
class StepReplays {
 public:
  StepReplays(train::Trainer& trainer, const data::Tokens& tokens)
      : trainer_(trainer), tokens_(tokens), as_run_(gathered(trainer), {}) {}

  TrainerReplay& get(const Replay& replay) {
    if (same_replay(replay, {})) return as_run_;
    if (!other_ || !same_replay(other_->how, replay)) other_.emplace(trainer_, replay);
    return *other_;
  }

  Tensor loss(const Replay& replay, int64_t step, int64_t micro) {
    const TrainerReplay& r = get(replay);
    random::begin_step(static_cast<uint64_t>(r.config.train.seed), static_cast<uint64_t>(step));
    const Tensor loss = train::micro_loss(*r.model, r.config, r.recipes, tokens_, step, micro);
    if (r.config.train.accumulate == 1) return loss;
    const amp::Autocast off(amp::disabled_autocast());
    return loss * (1.0 / static_cast<double>(r.config.train.accumulate));
  }

 private:
  static train::Trainer& gathered(train::Trainer& trainer) {
    trainer.gather_weights();
    return trainer;
  }

  train::Trainer& trainer_;
  const data::Tokens& tokens_;
  TrainerReplay as_run_;
  std::optional<TrainerReplay> other_;
};

// The steps whose batches a cure must suit besides that of `step`: four before it and four after
// it, more of those if there are fewer before.
std::vector<int64_t> neighbors(int64_t step) {
  constexpr int64_t count = 8;
  std::vector<int64_t> steps;
  for (int64_t other = std::max<int64_t>(step - count / 2, 0); std::ssize(steps) < count; ++other) {
    if (other != step) steps.push_back(other);
  }
  return steps;
}

}  // namespace

std::optional<Diagnosis> examine_step(train::Trainer& trainer, const data::Tokens& tokens,
                                      const ReplayedStep& step) {
  StepReplays replays(trainer, tokens);
  std::optional<Diagnosis> found;
  for (int64_t micro = 0; micro < trainer.config().train.accumulate && !found; ++micro) {
    std::vector<std::function<Tensor(const Replay&)>> others;
    for (const int64_t other : neighbors(step.step))
      others.emplace_back([&replays, other, micro](const Replay& replay) {
        return replays.loss(replay, other, micro);
      });
    found = diagnose(
        {.loss = [&](const Replay& replay) { return replays.loss(replay, step.step, micro); },
         .parameters =
             [&](const Replay& replay) { return replays.get(replay).model->named_parameters(); },
         .scale = step.scale,
         .buffers =
             [&](const Replay& replay) { return replays.get(replay).model->named_buffers(); },
         .others = std::move(others),
         .history = step.history,
         .quantized = trainer.recipes().enabled});
  }
  return found;
}

std::string explain_spike(train::Trainer& trainer, const data::Tokens& tokens,
                          const ReplayedStep& step) {
  const NoGrad no_grad;
  StepReplays replays(trainer, tokens);
  const auto mean_loss = [&](const Replay& replay, int64_t of) {
    double loss = 0;
    for (int64_t micro = 0; micro < trainer.config().train.accumulate; ++micro)
      loss += replays.loss(replay, of, micro).item();
    return loss;
  };
  const double before = step.history.empty() ? 0 : step.history.back().loss;
  const double now = mean_loss({}, step.step), in_f32 = mean_loss({.f32 = true}, step.step);
  const double previous_batch = step.step > 0 ? mean_loss({}, step.step - 1) : now;
  // Halfway between a normal loss and the spike, in either direction.
  const double middle = (before + now) / 2;
  const std::string losses = fmt::format(
      "with the weights of now: this batch {:.4g}, in f32 {:.4g}, the batch before it {:.4g} "
      "(was {:.4g})",
      now, in_f32, previous_batch, before);
  if (now < middle)
    return "it is gone with the update of this step: the batch is unusual; " + losses;
  if (in_f32 < middle) return "verdict: range; f32 does not have it; " + losses;
  if (previous_batch > middle)
    return "verdict: divergence; all batches have it, so the last update made it; " + losses;
  return "verdict: data; only this batch has it; " + losses;
}

}  // namespace binade::lab
