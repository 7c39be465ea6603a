#include "binade/train/run/step_meter.h"

#include "binade/backend/gpu.h"
#include "binade/data/batches.h"

namespace binade::train {
namespace {

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

StepMeter::StepMeter(const Run& run)
    : run_(run), energy_([device = run.device] { return backend::energy_joules(device); }) {}

void StepMeter::continue_from(double seconds, int64_t tokens) {
  seconds_ = seconds;
  tokens_ = tokens;
}

void StepMeter::leave_out_time() { last_ = Clock::now(); }

double StepMeter::seconds_of_each(size_t results) {
  const Clock::time_point now = Clock::now();
  const double seconds = seconds_between(last_, now) / static_cast<double>(results);
  last_ = now;
  return seconds;
}

void StepMeter::add(int64_t step, double seconds, bool observed) {
  const Config& config = run_.config;
  const int64_t tokens = data::training_tokens(
      run_.tokens, {config.train.batch, config.model.context, config.train.accumulate},
      static_cast<uint64_t>(config.train.seed), step - 1);
  seconds_ += seconds;
  tokens_ += tokens;
  if (!observed || speed_.empty()) speed_.add(static_cast<double>(tokens), seconds);
  energy_.add(static_cast<double>(tokens), elapsed());
  if (full_speed_ > 0 && speed_.tokens_per_second() > full_speed_) full_speed_ = 0;
}

double StepMeter::elapsed() const { return seconds_between(run_.begin, Clock::now()); }

}  // namespace binade::train
