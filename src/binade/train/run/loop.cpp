#include "binade/train/run/loop.h"

#include <fmt/format.h>

#include <utility>

#include "binade/amp/diverged_error.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/data/batches.h"
#include "binade/train/config/component_options.h"
#include "binade/train/run/earlier_settings.h"
#include "binade/train/run/ending.h"
#include "binade/train/run/follow.h"
#include "binade/train/run/introduction.h"
#include "binade/train/run/prometheus.h"
#include "binade/train/run/recorder.h"
#include "binade/train/run/restore_files.h"
#include "binade/train/run/resume_check.h"
#include "binade/train/run/saver.h"
#include "binade/train/run/signals.h"
#include "binade/train/run/state.h"
#include "binade/train/run/throughput.h"
#include "binade/version.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

Origin origin_of(const RunState& run) {
  const Config& config = run.config;
  return {.run = run.folder.run_id(),
          .data = describe_data(run.split),
          .arithmetic = describe_arithmetic(run.trainer.device()),
          .version = version(),
          .base = config.lora.rank > 0
                      ? describe_weights(io::model_folder(config.model.init_from, "--init-from"))
                      : ""};
}

void append(std::vector<std::string>& to, std::vector<std::string> texts) {
  for (std::string& one : texts) to.push_back(std::move(one));
}

// One run, from its start or a checkpoint to its end.
class Loop {
 public:
  Loop(const Config& config, Progress::Mode mode, Observer* observer,
       const std::shared_ptr<ranks::Communicator>& ranks)
      : run_(config, mode, observer, ranks), origin_(origin_of(run_)), saver_(run_, origin_) {}

  RunResult run() {
    // --resume starts a run of which there is nothing yet.
    if (run_.folder.is_new()) run_.config.run.resume = false;
    std::vector<std::string> warnings = run_.folder.warnings();
    append(warnings, run_.split.warnings);
    if (run_.folder.resumed()) {
      append(warnings, check_unchanged(run_.config, origin_, *run_.tokenizer, resumed_path(run_)));
      if (const auto done = finished_before(run_, saver_)) {
        for (const std::string& warning : warnings) run_.warn(warning);
        run_.trainer.announce({Order::end});
        return *done;
      }
    }
    append(warnings, begin_weights());
    prepare_reference();
    // Before the log is opened, which may be that of the run to compare with.
    run_.chain.emplace(run_.config, run_.trainer.steps(),
                       run_.folder.resumed() ? read_hash(resumed_path(run_)).link : std::nullopt);
    measure_full_speed();
    begin_files();
    loader_.emplace(run_.split.train, run_.trainer.loader_options());
    signals_.emplace();
    introduce();
    if (!run_.log->warning().empty()) warnings.push_back(run_.log->warning());
    if (run_.observer != nullptr)
      append(warnings, run_.observer->begin(run_.trainer, run_.folder.path()));
    for (const std::string& warning : warnings) run_.warn(warning);
    recorder_.emplace(run_, saver_);
    continue_numbers();
    RunResult result = train_to_the_end();
    run_.trainer.announce({Order::end});
    return result;
  }

 private:
  // The weights of the checkpoint, or those to start from. Returns warnings.
  std::vector<std::string> begin_weights() {
    const Config& config = run_.config;
    const auto& from = run_.folder.resumed();
    if (!from) {
      if (config.model.init_from.empty()) return {};
      run_.trainer.init_from(config.model.init_from);
      if (!config.lora.adapter.empty()) run_.trainer.load_adapter(config.lora.adapter);
      return {};
    }
    std::vector<std::string> warnings;
    if (config.precision.automatic) warnings = restore_plan(run_.folder.path(), resumed_path(run_));
    // A checkpoint of adapters does not hold the weights they adapt.
    if (config.lora.rank > 0) run_.trainer.init_from(config.model.init_from);
    run_.trainer.announce({Order::load, from->path.string()});
    try {
      load_checkpoint(run_.trainer, from->path);
    } catch (const Error& error) {
      refuse_state(config, from->path, error);
    }
    return warnings;
  }

  // The weights are those to start from, or the checkpoint has what they gave then.
  void prepare_reference() {
    run_.trainer.prepare_reference(run_.split, [this](size_t done, size_t all) {
      run_.output.status(fmt::format("log-probabilities of the reference: {}%", 100 * done / all));
    });
  }

  void measure_full_speed() {
    run_.meter.set_full_speed(full_speed(run_.config));
    run_.output.set_full_speed(run_.meter.full_speed());
    memory::release_cached(run_.trainer.device());  // of that measurement
    memory::reset_peak(run_.trainer.device());
  }

  void begin_files() {
    saver_.read_companions();
    run_.folder.note_arrangement(chosen_arrangement(run_.trainer, run_.config));
    run_.folder.put_in_place([this](const fs::path& name) {
      note_earlier();
      saver_.save_settings(name);
      run_.folder.note_checkpoint(run_.folder.resumed() ? run_.folder.resumed()->step : -1);
    });
    saver_.open();
  }

  // The settings of the steps before, if the ones to come are taken with others.
  void note_earlier() {
    EarlierSettings earlier;
    if (run_.folder.resumed())
      earlier = {run_.folder.resumed()->step, other_settings_of(resumed_path(run_), run_.config)};
    note_earlier_settings(run_.folder.path(), earlier);
  }

  void introduce() {
    for (const std::string& line : introduction(run_.trainer, run_.config, run_.split,
                                                run_.trains_bytes() ? "bytes" : "tokens"))
      run_.note(line);
    run_.note("run folder: " + run_.folder.path().string());
  }

  // Those of the log so far.
  void continue_numbers() {
    const Config& config = run_.config;
    run_.meter.continue_from(run_.log->seconds(), run_.log->tokens().value_or(run_.trainer.steps() *
                                                                              step_tokens(config)));
    run_.newest.emplace(NewestNumbers::Run{.config = config,
                                           .trainer = run_.trainer,
                                           .log = *run_.log,
                                           .observer = run_.observer,
                                           .epoch_steps = run_.epoch_steps,
                                           .full_speed = run_.meter.full_speed()},
                        run_.folder,
                        Record{.step = run_.trainer.steps(),
                               .seconds = run_.meter.seconds(),
                               .tokens = run_.meter.tokens()});
  }

  RunResult train_to_the_end() {
    try {
      const Ending ending = train();
      return finish(run_, saver_, *recorder_, *signals_, ending);
    } catch (const amp::DivergedError&) {
      report_so_far(run_);
      throw;
    } catch (const AuditError&) {
      report_so_far(run_);
      throw;
    } catch (const Error&) {
      if (run_.folder.is_ours()) throw;
    }
    saver_.end_in_new_folder();
  }

  Ending train() {
    Ending ending;
    const int64_t last = run_.config.train.steps;
    if (run_.trainer.steps() == 0) recorder_->record_start();
    run_.meter.leave_out_time();
    while (run_.trainer.steps() < last && !stops() && !is_out_of_patience()) {
      saver_.follow_folder();
      take_step();
      ending.has_trained = true;
      saver_.poll();
      if (std::exchange(save_requested_, false) || saves_at(run_.trainer.steps())) {
        recorder_->record(run_.trainer.finish_all(), false);
        saver_.save();
      }
    }
    recorder_->record(run_.trainer.finish_all(), false);
    ending.stopped_early = run_.trainer.steps() < last && is_out_of_patience();
    ending.interrupted =
        run_.trainer.steps() < last && !ending.stopped_early && run_.chain->difference().empty();
    saver_.follow_folder();
    // No step follows: the snapshot may have their place.
    memory::release_cached(run_.trainer.device());
    saver_.save();
    saver_.wait();
    return ending;
  }

  bool is_out_of_patience() const {
    return train::is_out_of_patience(run_.config, run_.log->losses());
  }

  bool stops() const {
    const double limit = run_.config.run.time_limit;
    return !run_.chain->difference().empty() || signals_->stop_requested() ||
           run_.trainer.stop_signal() != 0 || (limit > 0 && run_.meter.elapsed() >= limit);
  }

  bool saves_at(int64_t step) const {
    const int64_t interval = run_.config.run.checkpoint_every;
    return interval > 0 && step % interval == 0 && step < run_.config.train.steps;
  }

  // Keeps a GPU busy: the result of a step is recorded when it arrives, some steps later. Before a
  // validation or a checkpoint, and at the end, all results are awaited.
  void take_step() {
    const std::vector<data::Batch> batches = next_batches();
    save_requested_ = signals_->take_save_request();
    const bool awaited = run_.observer != nullptr && run_.observer->before_step(run_.trainer);
    run_.trainer.start_step(batches);
    const int64_t step = run_.trainer.steps();
    const bool all = awaited || save_requested_ || recorder_->validates_at(step) ||
                     saves_at(step) || run_.chain->hashes_at(step);
    recorder_->record(all ? run_.trainer.finish_all() : run_.trainer.finished(), awaited);
    // Nothing is pending then, so the time since belongs to validations and statistics.
    if (all) run_.meter.leave_out_time();
  }

  // The batches of the next step. If they cannot be read, the steps so far are saved.
  std::vector<data::Batch> next_batches() {
    std::vector<data::Batch> batches;
    try {
      for (int64_t i = 0; i < run_.trainer.own_micro_batches(); ++i)
        batches.push_back(loader_->next());
    } catch (const Error&) {
      recorder_->record(run_.trainer.finish_all(), false);
      saver_.save_before_failing();
      throw;
    }
    return batches;
  }

  RunState run_;
  Origin origin_;
  RunSaver saver_;
  std::optional<StepRecorder> recorder_;
  std::optional<data::Loader> loader_;
  std::optional<SignalGuard> signals_;
  bool save_requested_ = false;
};

}  // namespace

RunResult run(const Config& config, Progress::Mode mode, Observer* observer,
              const std::shared_ptr<ranks::Communicator>& ranks) {
  check_device(config);
  if (config.train.threads > 0) {
    set_threads(static_cast<int>(config.train.threads));
  } else {
    share_threads(*ranks);
  }
  ranks->set_timeout(config.ranks.timeout);
  if (ranks->rank() != 0) {
    follow_run(config, ranks);
    return {};
  }
  check_metrics_file(config.run.metrics_file);
  return Loop(config, mode, observer, ranks).run();
}

}  // namespace binade::train
