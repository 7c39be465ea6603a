#include "binade/train/run/recorder.h"

#include <fmt/format.h>

#include <limits>

#include "binade/base/error.h"
#include "binade/train/evaluate.h"

namespace binade::train {

StepRecorder::StepRecorder(RunState& run, RunSaver& saver)
    : run_(run), saver_(saver), watch_(run.trainer) {
  const io::Path log = run_.folder.path() / "metrics.jsonl";
  if (run_.trainer.steps() == 0 || !log.exists()) return;
  visit_metrics(
      log, [this](const Record& record, std::string_view) { watch_.add_earlier(record); },
      [](const std::string&, std::string_view) {});  // the log has moved damaged lines
}

void StepRecorder::record_start() {
  const Validation validation = run_.trainer.evaluate(run_.split.validation);
  const Record record{.step = 0,
                      .loss = std::numeric_limits<double>::quiet_NaN(),
                      .validation_loss = validation.loss,
                      .memory = memory::peak(run_.trainer.device()),
                      .validation_preferences = validation.preferences,
                      .link = run_.chain->add(run_.trainer)};
  if (const std::exception_ptr failure = add_to_log(record)) {
    saver_.save_before_failing();
    std::rethrow_exception(failure);
  }
  run_.samples.show(run_.meter.seconds());
  run_.meter.leave_out_time();
}

bool StepRecorder::validates_at(int64_t step) const {
  const int64_t interval = run_.config.run.eval_every;
  return (interval > 0 && step % interval == 0) || step == run_.config.train.steps;
}

void StepRecorder::record(const std::vector<StepResult>& results, bool observed) {
  const std::exception_ptr failure = record_each(results, observed);
  if (!failure) return;
  record_each(run_.trainer.finish_all(), false);  // a GPU may have started more steps
  saver_.save_before_failing();
  std::rethrow_exception(failure);
}

// Returns the first failure to write a record, or null.
std::exception_ptr StepRecorder::record_each(const std::vector<StepResult>& results,
                                             bool observed) {
  if (results.empty()) return {};
  const double seconds = run_.meter.seconds_of_each(results.size());
  std::exception_ptr failure;
  for (const StepResult& result : results) {
    run_.meter.add(result.step, seconds, observed);
    run_.output.set_full_speed(run_.meter.full_speed());
    const std::exception_ptr one = record_one(result);
    if (!failure) failure = one;
  }
  return failure;
}

// Returns the failure to write the record, or null. Such a run saves a checkpoint before it ends,
// and a resumed run does not repeat the step: everything else is done as for any other.
std::exception_ptr StepRecorder::record_one(const StepResult& result) {
  Record record{.step = result.step,
                .loss = result.loss,
                .lr = result.lr,
                .gradient_norm = result.gradient_norm,
                .scale = result.scale,
                .applied = result.applied,
                .skipped = result.skipped,
                .tokens_per_second = run_.meter.tokens_per_second(),
                .memory = memory::peak(run_.trainer.device()),
                .seconds = run_.meter.seconds(),
                .tokens = run_.meter.tokens(),
                .joules_per_token = run_.meter.joules_per_token(),
                .preferences = result.preferences};
  // No later step was started then.
  if (run_.chain->hashes_at(result.step)) record.link = run_.chain->add(run_.trainer);
  if (validates_at(result.step)) {
    const Validation validation = run_.trainer.evaluate(run_.split.validation);
    record.validation_loss = validation.loss;
    record.validation_preferences = validation.preferences;
  }
  const std::exception_ptr failure = add_to_log(record);
  try {
    follow_up(record, result);
  } catch (const Error&) {
    if (!failure) throw;  // otherwise the first failure says more
  }
  return failure;
}

// Returns the failure to write it, or null.
std::exception_ptr StepRecorder::add_to_log(const Record& record) {
  try {
    run_.log->add(record);
  } catch (const Error&) {
    return std::current_exception();
  }
  if (const std::string warning = run_.newest->add(record); !warning.empty()) run_.warn(warning);
  run_.output.set_ranks(run_.trainer.ranks().size(), run_.trainer.waiting());
  run_.output.show([&](Progress& progress) { progress.step(record); });
  return {};
}

void StepRecorder::follow_up(const Record& record, const StepResult& result) {
  const bool is_best = record.validation_loss && run_.log->losses().best_step == result.step;
  if (run_.config.run.keep_best && is_best) saver_.save_best();
  if (record.validation_loss && result.step < run_.config.train.steps) {
    run_.samples.show(run_.meter.seconds());
    live_report_.update(run_.folder.path());
  }
  if (const std::string text = skips_.add(result); !text.empty()) run_.note(text);
  for (const Alarm& alarm : watch_.add(run_.trainer, record)) {
    run_.warn(fmt::format("step {}: {}", alarm.step, to_text(alarm)));
    if (run_.observer != nullptr) run_.observer->note_alarm(alarm);
  }
  if (run_.observer == nullptr) return;
  for (const std::string& text : run_.observer->after_step(run_.trainer, run_.split.train, result))
    run_.note(text);
}

}  // namespace binade::train
