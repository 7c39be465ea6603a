#include "binade/train/run/ending.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/train/config/component_options.h"
#include "binade/train/evaluate.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/report/run_summary.h"

namespace binade::train {
namespace {

// False if keep_best is new in a resumed run whose lowest loss was before.
bool has_best(const RunState& run) { return run.config.run.keep_best && best_folder(run).exists(); }

// The parts of a result that files and losses tell.
RunResult result_of(RunState& run, const LossHistory& losses) {
  RunResult result;
  result.folder = run.folder.path().plain();
  result.report = (run.folder.path() / "report.html").plain();
  result.validations = losses.validations;
  result.first_validation_loss = losses.first;
  result.last_validation_loss = losses.last;
  result.best_validation_loss = losses.best;
  result.best_step = losses.best_step;
  if (has_best(run)) result.best = best_folder(run).plain();
  result.last_validation_preferences = losses.last_preferences;
  result.loss_unit = loss_unit(run.config);
  result.parameters = run.trainer.model().parameter_count();
  result.trained_parameters = trained_parameters(run.trainer.model());
  return result;
}

void note_ranks(RunState& run, const std::vector<ranks::RankTime>& times) {
  if (times.empty()) return;
  double low = 1, high = 0, sent = 0;
  for (const ranks::RankTime& one : times) {
    const double waiting = one.seconds > 0 ? one.waited / one.seconds : 0;
    low = std::min(low, waiting);
    high = std::max(high, waiting);
    sent += one.sent;
  }
  run.note(fmt::format("{} ranks waited for each other {:.0f}% to {:.0f}% of the time and sent {}",
                       times.size(), 100 * low, 100 * high,
                       bytes_text(static_cast<int64_t>(sent))));
}

RunSummary summary_of(RunState& run, const std::string& sample, bool has_trained) {
  RunSummary summary;
  summary.parameters = run.trainer.model().parameter_count();
  summary.trained_parameters = trained_parameters(run.trainer.model());
  summary.epoch_steps = run.epoch_steps;
  summary.steps = run.trainer.steps();
  // A process that was killed after its last step knew its memory; this one took no step.
  summary.memory =
      has_trained ? memory::statistics(run.trainer.device()) : forecast_memory(run.config);
  summary.full_speed = run.meter.full_speed();
  if (run.samples.can_decode() && !run.config.objective.has_pairs())
    summary.bytes_per_token =
        run.samples.decoded([&] { return bytes_per_token(*run.tokenizer, run.split.validation); });
  summary.sample = sample;
  summary.origin = provenance(run.config, run.folder.command());
  return summary;
}

}  // namespace

bool is_out_of_patience(const Config& config, const LossHistory& losses) {
  return config.run.patience > 0 && losses.validations_since_best >= config.run.patience;
}

std::optional<RunResult> finished_before(RunState& run, RunSaver& saver) {
  const int64_t step = run.folder.resumed()->step;
  std::optional<RunSummary> summary;
  try {
    summary = read_run(run.folder.path());
  } catch (const Error&) {  // of which a new report is made
    return {};
  }
  LossHistory losses;
  for (const Record& record : summary->records) losses.add(record);
  const bool stopped_early =
      step < run.config.train.steps && is_out_of_patience(run.config, losses);
  const bool recorded = summary->steps == step && summary->records.back().step == step &&
                        (run.folder.path() / "report.html").exists();
  if (!recorded || (step < run.config.train.steps && !stopped_early)) return {};
  if (saver.read_companions()) saver.save_settings(run.folder.path().plain());
  run.folder.note_checkpoint(step);
  RunResult result = result_of(run, losses);
  result.checkpoint = run.folder.resumed()->path;
  result.steps = step;
  result.finished_before = true;
  result.stopped_early = stopped_early;
  result.seconds = result.elapsed = summary->records.back().seconds;
  result.sample = summary->sample;
  RunWatch watch(run_facts(run.config, run.trainer.model()));
  for (const Record& record : summary->records) {
    if (record.step > 0) watch.add(step_facts(record));
  }
  result.failure = failure_text(watch, losses);
  return result;
}

RunResult finish(RunState& run, const RunSaver& saver, const StepRecorder& recorder,
                 const SignalGuard& signals, const Ending& ending) {
  if (const std::string text = recorder.skipped(); !text.empty()) run.note(text);
  run.output.finish();
  RunResult result = result_of(run, run.log->losses());
  result.checkpoint = saver.checkpoint();
  result.steps = run.trainer.steps();
  result.interrupted = ending.interrupted;
  result.stopped_early = ending.stopped_early;
  result.failure = recorder.failure();
  result.difference = run.chain->difference();
  if (const std::string equal = run.chain->verified(); !equal.empty())
    run.note("verified: " + equal);
  if (run.trainer.audit() != nullptr) run.note(audit_text(*run.trainer.audit()));
  result.seconds = run.meter.seconds();
  if (ending.interrupted)
    result.signal = signals.stop_signal() != 0 ? signals.stop_signal() : run.trainer.stop_signal();
  if (!signals.stop_requested() && !ending.interrupted && run.config.run.sample > 0 &&
      run.samples.can_decode()) {
    run.output.status("generating a sample");
    result.sample = run.samples.generate(run.config.run.sample);
    run.output.finish();
  }
  const std::vector<ranks::RankTime> ranks = run.trainer.rank_times();
  note_ranks(run, ranks);
  result.elapsed = run.meter.elapsed();
  RunSummary summary = summary_of(run, result.sample, ending.has_trained);
  summary.ranks = ranks;
  write_summary(summary, run.folder.path());
  report_so_far(run);
  return result;
}

void report_so_far(const RunState& run) {
  if (!run.log->empty())
    write_report(read_run(run.folder.path()), run.folder.path() / "report.html");
}

}  // namespace binade::train
