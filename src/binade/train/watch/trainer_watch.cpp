#include "binade/train/watch/trainer_watch.h"

#include <limits>

#include "binade/optim/adafactor.h"
#include "binade/optim/adam.h"
#include "binade/optim/muon.h"
#include "binade/train/watch/first_loss.h"

namespace binade::train {
namespace {

// Steps between two samples of the weights.
constexpr int64_t sample_interval = 20;

// The size of gradients below which the optimizer's updates vanish.
void set_eps(RunFacts& facts, const Config& config) {
  switch (config.train.optimizer) {
    case OptimizerKind::adamw:
    case OptimizerKind::nadam:
      facts.eps = optim::AdamOptions().eps;
      facts.beta2 = config.train.beta2;
      return;
    case OptimizerKind::muon:
      facts.eps = optim::MuonOptions().eps;
      facts.eps_is_of_norm = true;
      return;
    case OptimizerKind::adafactor:  // eps1
      facts.eps = std::numeric_limits<float>::epsilon();
      return;
    case OptimizerKind::lion:  // takes only signs, which zeros have none of
      facts.eps = std::numeric_limits<float>::min();
      facts.eps_name = "f32's smallest normal number";
      return;
    default:  // not for configurations
      return;
  }
}

}  // namespace

RunFacts run_facts(const Config& config, const nn::LanguageModel& model) {
  RunFacts facts{.vocabulary = config.objective.has_pairs() ? 2 : config.model.vocab,
                 .is_loaded = !config.model.init_from.empty(),
                 .clip = config.train.clip,
                 .elements = trained_parameters(model)};
  set_eps(facts, config);
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

// Adafactor's rate is relative to the weights.
std::optional<Alarm> TrainerWatch::check_reach(const Trainer& trainer, int64_t step) const {
  const Config& config = trainer.config();
  if (config.train.optimizer == OptimizerKind::adafactor) return {};
  return check_learning_rate(start_, step, config.train.lr, config.train.steps);
}

std::vector<Alarm> TrainerWatch::add(Trainer& trainer, const Record& record) {
  std::vector<Alarm> alarms = watch_.add(step_facts(record));
  for (Alarm& alarm : alarms) name_parameter(alarm, module_of(trainer, alarm.cause));
  if (record.step != first_step_ + sample_interval) return alarms;
  const int64_t updates = sample_interval - (record.skipped - first_skipped_);
  auto stalled = check_updates(start_, sample(trainer), record.step, updates, record.lr);
  if (!stalled) stalled = check_reach(trainer, record.step);
  // Gradients that are too small, or none, explain it better.
  if (stalled && alarms.empty() && !watch_.has_raised(Cause::no_gradient) &&
      !watch_.has_raised(Cause::small_gradient) && watch_.is_new(*stalled))
    alarms.push_back(*stalled);
  return alarms;
}

}  // namespace binade::train
