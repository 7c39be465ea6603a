#include "binade/train/watch/trainer_watch.h"

#include "binade/optim/adam.h"

namespace binade::train {
namespace {

// Steps between two samples of the weights.
constexpr int64_t sample_interval = 20;

bool is_adam(const Config& config) {
  return config.train.optimizer == OptimizerKind::adamw ||
         config.train.optimizer == OptimizerKind::nadam;
}

}  // namespace

RunFacts run_facts(const Config& config, const nn::LanguageModel& model) {
  RunFacts facts{.vocabulary = config.model.vocab,
                 .is_loaded = !config.model.init_from.empty(),
                 .clip = config.train.clip,
                 .elements = trained_parameters(model)};
  if (is_adam(config)) {
    facts.eps = optim::AdamOptions().eps;
    facts.beta2 = config.train.beta2;
  }
  return facts;
}

StepFacts step_facts(const Record& record) {
  return {.step = record.step,
          .loss = record.loss,
          .gradient_norm = record.gradient_norm,
          .lr = record.lr,
          .applied = record.applied};
}

std::string failure_text(const RunWatch& watch, const LossHistory& losses) {
  const std::string failure = watch.failure();
  if (failure.empty() && losses.last && !std::isfinite(*losses.last))
    return "the validation loss is not finite";
  return failure;
}

TrainerWatch::TrainerWatch(Trainer& trainer)
    : watch_(run_facts(trainer.config(), trainer.model())),
      parameters_(trainer.model().named_parameters()),
      first_step_(trainer.steps()),
      first_skipped_(trainer.skipped()),
      start_(sample(trainer)) {}

void TrainerWatch::add_earlier(const Record& record) {
  if (record.step > 0) watch_.add(step_facts(record));
}

WeightSample TrainerWatch::sample(Trainer& trainer) const {
  return sample_weights(trainer.optimizer(), parameters_);
}

std::string TrainerWatch::module_of(Trainer& trainer, Cause cause) const {
  if (cause == Cause::first_loss) return largest_parameter(start_);
  if (cause != Cause::divergence && cause != Cause::collapse) return "";
  return most_grown_parameter(start_, sample(trainer));
}

std::vector<Alarm> TrainerWatch::add(Trainer& trainer, const Record& record) {
  std::vector<Alarm> alarms = watch_.add(step_facts(record));
  for (Alarm& alarm : alarms) alarm.module = module_of(trainer, alarm.cause);
  if (record.step != first_step_ + sample_interval) return alarms;
  const int64_t updates = sample_interval - (record.skipped - first_skipped_);
  const auto stalled = check_updates(start_, sample(trainer), record.step, updates, record.lr);
  // Gradients that are too small, or none, explain it better.
  if (stalled && alarms.empty() && !watch_.has_raised(Cause::no_gradient) &&
      !watch_.has_raised(Cause::small_gradient) && watch_.is_new(*stalled))
    alarms.push_back(*stalled);
  return alarms;
}

}  // namespace binade::train
