#include "binade/lab/replay/replayer.h"

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/ops/create/copy.h"
#include "binade/train/checkpoint.h"

namespace binade::lab {
namespace {

StateDict copies(const StateDict& state) {
  const NoGrad no_grad;
  StateDict result;
  for (const auto& [name, tensor] : state) result[name] = clone(tensor.detach());
  return result;
}

}  // namespace

// Not audited: two replays may alternate, and their hashes are compared anyway.
std::unique_ptr<train::Trainer> Replayer::new_trainer() const {
  train::Config config = config_;
  config.run.audit = 0;
  return std::make_unique<train::Trainer>(config);
}

void Replayer::choose_settings(int64_t step) {
  if (settings_ == nullptr) return;
  settings_ = &run_.settings_of(step);
  config_ = *settings_;
}

// As the run's first process began.
void Replayer::start() {
  choose_settings(1);
  trainer_ = new_trainer();
  if (!config_.model.init_from.empty()) trainer_->init_from(config_.model.init_from);
  if (!config_.lora.adapter.empty()) trainer_->load_adapter(config_.lora.adapter);
  trainer_->prepare_reference(split_);
  origin_ = 0;
  if (const train::Link* link = run_.chain.at(0)) compare(link->state, "metrics.jsonl");
}

void Replayer::load(const io::Checkpoint& checkpoint) {
  choose_settings(checkpoint.step + 1);
  trainer_ = new_trainer();
  if (config_.lora.rank > 0) trainer_->init_from(config_.model.init_from);
  train::load_checkpoint(*trainer_, checkpoint.path);
  trainer_->prepare_reference(split_);
  origin_ = checkpoint.step;
  compare_recorded();
}

void Replayer::compare(const std::optional<train::StateHash>& expected, const std::string& record) {
  if (!expected) return;
  const std::string parts = train::differing_parts(trainer_->hash(), *expected);
  if (parts.empty()) {
    ++compared_;
  } else if (!difference_) {
    difference_ = {trainer_->steps(), parts, record};
  }
}

void Replayer::compare_recorded() {
  const int64_t now = trainer_->steps();
  for (const io::Checkpoint& one : run_.checkpoints) {
    if (one.step == now)
      compare(train::read_hash(one.path).state, "checkpoints/" + one.path.filename().string());
  }
  if (const train::Link* link = run_.chain.at(now)) compare(link->state, "metrics.jsonl");
}

void Replayer::go_to(int64_t step) {
  const io::Checkpoint* const nearest = run_.checkpoint_before(step);
  const int64_t saved = nearest != nullptr ? nearest->step : 0;
  if (!trainer_ || trainer_->steps() > step || trainer_->steps() < saved)
    nearest != nullptr ? load(*nearest) : start();
  while (trainer_->steps() < step) this->step();
}

train::StepResult Replayer::step() {
  if (settings_ != nullptr && settings_ != &run_.settings_of(trainer_->steps() + 1))
    restore(save());  // the run was resumed with other settings here
  const train::StepResult result = trainer_->step(split_.train);
  compare_recorded();
  return result;
}

Replayer::State Replayer::save() {
  State state{.weights = {}, .trainer = copies(trainer_->state_dict())};
  for (const auto& [name, parameter] : trainer_->model().named_parameters())
    state.weights[name] = parameter;
  state.weights = copies(state.weights);
  return state;
}

// By a new trainer: one that has taken steps keeps more than a state tells, such as which scales
// are new.
void Replayer::restore(const State& state) {
  choose_settings(static_cast<int64_t>(state.trainer.at("steps").item()) + 1);
  trainer_.reset();
  trainer_ = new_trainer();
  // A base in blocks is frozen, and no parameter.
  if (config_.lora.base.in_blocks()) trainer_->init_from(config_.model.init_from);
  trainer_->model().load_state_dict(state.weights, false);
  trainer_->load_state_dict(state.trainer);
  trainer_->prepare_reference(split_);
}

}  // namespace binade::lab
