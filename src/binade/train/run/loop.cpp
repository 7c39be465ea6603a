#include "binade/train/run/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <utility>

#include "binade/amp/diverged_error.h"
#include "binade/backend/gpu.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/base/text.h"
#include "binade/data/batches.h"
#include "binade/data/corpus.h"
#include "binade/data/documents.h"
#include "binade/io/file.h"
#include "binade/train/checkpoint_writer.h"
#include "binade/train/companions.h"
#include "binade/train/config/epochs.h"
#include "binade/train/energy.h"
#include "binade/train/evaluate.h"
#include "binade/train/hash/run_chain.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/report/run_summary.h"
#include "binade/train/run/earlier_settings.h"
#include "binade/train/run/folder.h"
#include "binade/train/run/follow.h"
#include "binade/train/run/introduction.h"
#include "binade/train/run/live_report.h"
#include "binade/train/run/newest_numbers.h"
#include "binade/train/run/output.h"
#include "binade/train/run/restore_files.h"
#include "binade/train/run/resume_check.h"
#include "binade/train/run/samples.h"
#include "binade/train/run/signals.h"
#include "binade/train/run/skip_notes.h"
#include "binade/train/run/throughput.h"
#include "binade/train/watch/trainer_watch.h"
#include "binade/version.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

void write_file(const io::Path& path, std::string_view content) {
  io::AtomicFile file(path, "train");
  file.append(content);
  file.commit();
}

// One run, from its start or a checkpoint to its end.
class Loop {
 public:
  Loop(const Config& config, Progress::Mode mode, Observer* observer,
       const std::shared_ptr<ranks::Communicator>& ranks)
      : config_(config),
        observer_(observer),
        output_(mode, config.train.steps, config.run.log_every),
        tokenizer_(data::open_tokenizer(config.data.tokenizer)),
        split_(read_data()),
        trainer_(config, ranks),
        folder_(agreed(config)) {}

  RunResult run() {
    origin_ = {.run = folder_.run_id(),
               .data = describe_data(split_),
               .arithmetic = describe_arithmetic(trainer_.device()),
               .version = version(),
               .base = config_.lora.rank > 0 ? describe_weights(io::model_folder(
                                                   config_.model.init_from, "--init-from"))
                                             : ""};
    // --resume starts a run of which there is nothing yet.
    if (folder_.is_new()) config_.run.resume = false;
    std::vector<std::string> warnings = folder_.warnings();
    warnings.insert(warnings.end(), split_.warnings.begin(), split_.warnings.end());
    if (const auto& from = folder_.resumed()) {
      for (std::string& one : check_unchanged(config_, origin_, *tokenizer_, resumed_path()))
        warnings.push_back(std::move(one));
      if (const auto done = finished_before()) {
        for (const std::string& warning : warnings) warn(warning);
        trainer_.announce({Order::end});
        return *done;
      }
      if (config_.precision.automatic)
        for (std::string& one : restore_plan(folder_.path(), resumed_path()))
          warnings.push_back(std::move(one));
      // A checkpoint of adapters does not hold the weights they adapt.
      if (config_.lora.rank > 0) trainer_.init_from(config_.model.init_from);
      trainer_.announce({Order::load, from->path.string()});
      load(from->path);
    } else if (!config_.model.init_from.empty()) {
      trainer_.init_from(config_.model.init_from);
      if (!config_.lora.adapter.empty()) trainer_.load_adapter(config_.lora.adapter);
    }
    // Before the log is opened, which may be that of the run to compare with.
    chain_.emplace(config_, trainer_.steps(),
                   folder_.resumed() ? read_hash(resumed_path()).link : std::nullopt);
    full_speed_ = full_speed(config_);
    output_.set_full_speed(full_speed_);
    output_.set_epoch(epoch_steps_);
    memory::release_cached(trainer_.device());  // of that measurement
    memory::reset_peak(trainer_.device());
    companions_ = current_companions();
    if (folder_.resumed()) set_damaged_aside(folder_.path(), tokenizer_->model(), companions_);
    folder_.note_arrangement(chosen_arrangement(trainer_, config_));
    folder_.put_in_place([this](const fs::path& name) {
      note_earlier();
      save_settings(name);
      folder_.note_checkpoint(folder_.resumed() ? folder_.resumed()->step : -1);
    });
    open_writers();
    loader_.emplace(split_.train, trainer_.loader_options());
    signals_.emplace();
    introduce();
    if (!log_->warning().empty()) warnings.push_back(log_->warning());
    if (observer_ != nullptr)
      for (std::string& one : observer_->begin(trainer_, folder_.path()))
        warnings.push_back(std::move(one));
    for (const std::string& warning : warnings) warn(warning);
    start_watch();
    seconds_ = log_->seconds();
    tokens_ = log_->tokens().value_or(trainer_.steps() * config_.train.accumulate *
                                      config_.train.batch * config_.model.context);
    open_metrics_file();
    RunResult result = train_to_the_end();
    trainer_.announce({Order::end});
    return result;
  }

 private:
  RunResult train_to_the_end() {
    try {
      train();
      return finish();
    } catch (const amp::DivergedError&) {
      if (!log_->empty()) write_report(read_run(folder_.path()), folder_.path() / "report.html");
      throw;
    } catch (const AuditError&) {
      if (!log_->empty()) write_report(read_run(folder_.path()), folder_.path() / "report.html");
      throw;
    } catch (const Error&) {
      if (folder_.is_ours()) throw;
    }
    end_in_new_folder();
  }

  void open_writers() {
    log_.emplace(folder_.path(), trainer_.steps());
    if (StepAudit* const audit = trainer_.audit())
      audit->on_finding([this](const AuditFinding& finding) { keep(finding); });
    writer_.emplace(folder_.checkpoints(), config_.run.keep, origin_);
  }

  // What an audit has found, for good: the run may be about to end.
  void keep(const AuditFinding& finding) {
    io::AppendFile file(folder_.path() / "audit.jsonl", "train");
    file.append(to_json(finding) + "\n");
    file.sync();
    if (config_.run.audit_continue) warn("audit: " + to_text(finding));
  }

  void open_metrics_file() {
    newest_.emplace(NewestNumbers::Run{.config = config_,
                                       .trainer = trainer_,
                                       .log = *log_,
                                       .observer = observer_,
                                       .epoch_steps = epoch_steps_,
                                       .full_speed = full_speed_},
                    folder_,
                    Record{.step = trainer_.steps(), .seconds = seconds_, .tokens = tokens_});
  }

  void start_watch() {
    watch_.emplace(trainer_);
    const io::Path log = folder_.path() / "metrics.jsonl";
    if (trainer_.steps() == 0 || !log.exists()) return;
    visit_metrics(
        log, [this](const Record& record, std::string_view) { watch_->add_earlier(record); },
        [](const std::string&, std::string_view) {});  // the log has moved damaged lines
  }

  data::Split read_data() {
    output_.status("reading " + config_.data.source);
    data::Source source = data_source(config_, tokenizer_.get());
    source.progress = [&](size_t done, size_t all) {
      output_.status(fmt::format("tokenizing {}: {}%", config_.data.source,
                                 100 * done / std::max<size_t>(all, 1)));
    };
    source.cache = token_cache(config_);
    return data::read_split(source);
  }

  // Ranks that differ are refused before anything is written.
  const Config& agreed(const Config& config) {
    agree_with_ranks(trainer_, split_, *tokenizer_);
    return config;
  }

  // Guarded, as the run's folder is.
  io::Path resumed_path() const {
    return folder_.checkpoints() / folder_.resumed()->path.filename();
  }

  void load(const fs::path& checkpoint) {
    try {
      load_checkpoint(trainer_, checkpoint);
    } catch (const Error& error) {
      refuse_state(config_, checkpoint, error);
    }
  }

  // The checkpoint's files, whose hashes are known, before the folder's own.
  io::CompanionFiles current_companions() const {
    io::CompanionFiles files;
    if (folder_.resumed()) files = io::read_companions(resumed_path(), "train");
    files.merge(companions_of(config_, *tokenizer_, folder_.path()));
    return files;
  }

  // The result of a run that had ended before it was resumed, which then stays as it is. None if
  // steps are left, or if its end was not recorded.
  std::optional<RunResult> finished_before() {
    const int64_t step = folder_.resumed()->step;
    std::optional<RunSummary> run;
    try {
      run = read_run(folder_.path());
    } catch (const Error&) {  // of which a new report is made
      return {};
    }
    LossHistory losses;
    for (const Record& record : run->records) losses.add(record);
    const bool stopped_early = step < config_.train.steps && is_out_of_patience(losses);
    const bool recorded = run->steps == step && run->records.back().step == step &&
                          (folder_.path() / "report.html").exists();
    if (!recorded || (step < config_.train.steps && !stopped_early)) return {};
    companions_ = current_companions();
    if (set_damaged_aside(folder_.path(), tokenizer_->model(), companions_))
      save_settings(folder_.path().plain());
    folder_.note_checkpoint(step);
    RunResult result = result_of(losses);
    result.checkpoint = folder_.resumed()->path;
    result.steps = step;
    result.finished_before = true;
    result.stopped_early = stopped_early;
    result.seconds = result.elapsed = run->records.back().seconds;
    result.sample = run->sample;
    RunWatch watch(run_facts(config_, trainer_.model()));
    for (const Record& record : run->records) {
      if (record.step > 0) watch.add(step_facts(record));
    }
    result.failure = failure_text(watch, losses);
    return result;
  }

  // The parts of a result that files and losses tell.
  RunResult result_of(const LossHistory& losses) {
    RunResult result;
    result.folder = folder_.path().plain();
    result.report = (folder_.path() / "report.html").plain();
    result.validations = losses.validations;
    result.first_validation_loss = losses.first;
    result.last_validation_loss = losses.last;
    result.best_validation_loss = losses.best;
    result.best_step = losses.best_step;
    if (has_best()) result.best = best_folder().plain();
    result.bytes = trains_bytes();
    result.parameters = trainer_.model().parameter_count();
    result.trained_parameters = trained_parameters(trainer_.model());
    return result;
  }

  // The settings of the steps before, if the ones to come are taken with others.
  void note_earlier() {
    EarlierSettings earlier;
    if (folder_.resumed())
      earlier = {folder_.resumed()->step, other_settings_of(resumed_path(), config_)};
    note_earlier_settings(folder_.path(), earlier);
  }

  // Resuming needs only the run's folder, so the tokenizer is saved too. `name` is the folder's.
  void save_settings(const fs::path& name) {
    Config saved = config_;
    saved.run.out = name.string();
    if (!tokenizer_->model().empty()) {
      const char* file = data::tokenizer_file(tokenizer_->model());
      saved.data.tokenizer = (name / file).string();
      write_file(folder_.path() / file, tokenizer_->model());
    }
    io::write_companions(companions_, folder_.path(), "train");
    write_file(folder_.path() / "config.toml", to_toml(saved));
  }

  void note(const std::string& text) { output_.note(text); }
  void warn(const std::string& text) { output_.warn(text); }

  void introduce() {
    for (const std::string& line :
         introduction(trainer_, config_, split_, trains_bytes() ? "bytes" : "tokens"))
      note(line);
    note("run folder: " + folder_.path().string());
  }

  bool trains_bytes() const {
    return config_.model.vocab == data::byte_vocabulary && tokenizer_->model().empty();
  }

  static bool every(int64_t interval, int64_t step) { return interval > 0 && step % interval == 0; }

  void train() {
    if (trainer_.steps() == 0) record_start();
    last_record_ = Clock::now();
    while (trainer_.steps() < config_.train.steps && !stops() &&
           !is_out_of_patience(log_->losses())) {
      watch_folder();
      take_step();
      has_trained_ = true;
      note_checkpoint(writer_->poll());
      if (std::exchange(save_requested_, false) || saves_at(trainer_.steps())) {
        record_all(trainer_.finish_all(), false);
        save();
      }
    }
    record_all(trainer_.finish_all(), false);
    stopped_early_ = trainer_.steps() < config_.train.steps && is_out_of_patience(log_->losses());
    interrupted_ =
        trainer_.steps() < config_.train.steps && !stopped_early_ && chain_->difference().empty();
    watch_folder();
    memory::release_cached(
        trainer_.device());  // no step follows: the snapshot may have their place
    save();
    note_checkpoint(writer_->wait());
  }

  bool stops() const {
    return !chain_->difference().empty() || signals_->stop_requested() ||
           trainer_.stop_signal() != 0 ||
           (config_.run.time_limit > 0 && seconds_since(start_) >= config_.run.time_limit);
  }

  bool is_out_of_patience(const LossHistory& losses) const {
    return config_.run.patience > 0 && losses.validations_since_best >= config_.run.patience;
  }

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  // A folder that was renamed is written where it is now; one that was removed ends the run.
  void watch_folder() {
    if (!folder_.is_ours()) end_in_new_folder();
    if (!folder_.was_renamed()) return;
    const std::string name = folder_.path().string();
    save_settings(name);
    warn("the run's folder was renamed; it is now " + name);
  }

  // Someone has removed the run's folder, and with it the log and the checkpoints so far: the state
  // of now is saved.
  [[noreturn]] void end_in_new_folder() {
    const std::string removed = folder_.path().string();
    trainer_.finish_all();
    folder_.replace();
    const std::string name = folder_.path().string();
    save_settings(name);
    folder_.note_checkpoint(-1);
    open_writers();
    writer_->save(trainer_, tokenizer_->model(), companions_, chain_->newest());
    note_checkpoint(writer_->wait());
    fail("train", {.argument = removed,
                   .expected = "the run's folder",
                   .found = "none: it was removed while the run wrote to it",
                   .hint = fmt::format("step {} was saved: 'train --resume --out {}' continues "
                                       "from there",
                                       trainer_.steps(), name)});
  }

  // Step 0 is the untrained model, which has nothing but a validation loss.
  void record_start() {
    const Record record{.step = 0,
                        .loss = std::numeric_limits<double>::quiet_NaN(),
                        .validation_loss = trainer_.evaluate(split_.validation),
                        .memory = memory::peak(trainer_.device()),
                        .link = chain_->add(trainer_)};
    if (const std::exception_ptr failure = add_to_log(record)) {
      save_before_failing();
      std::rethrow_exception(failure);
    }
    samples_.show(seconds_);
    last_record_ = Clock::now();
  }

  bool evaluates_at(int64_t step) const {
    return every(config_.run.eval_every, step) || step == config_.train.steps;
  }
  bool saves_at(int64_t step) const {
    return every(config_.run.checkpoint_every, step) && step < config_.train.steps;
  }

  // Keeps a GPU busy: the result of a step is recorded when it arrives, some steps later. Before a
  // validation or a checkpoint, and at the end, all results are awaited.
  void take_step() {
    const std::vector<data::Batch> batches = next_batches();
    save_requested_ = signals_->take_save_request();
    const bool awaited = observer_ != nullptr && observer_->before_step(trainer_);
    trainer_.start_step(batches);
    const int64_t step = trainer_.steps();
    const bool all = awaited || save_requested_ || evaluates_at(step) || saves_at(step) ||
                     chain_->hashes_at(step);
    record_all(all ? trainer_.finish_all() : trainer_.finished(), awaited);
    // Nothing is pending then, so the time since belongs to validations and statistics.
    if (all) last_record_ = Clock::now();
  }

  // The batches of the next step. If they cannot be read, the steps so far are saved.
  std::vector<data::Batch> next_batches() {
    std::vector<data::Batch> batches;
    try {
      for (int64_t i = 0; i < trainer_.own_micro_batches(); ++i) batches.push_back(loader_->next());
    } catch (const Error&) {
      record_all(trainer_.finish_all(), false);
      save_before_failing();
      throw;
    }
    return batches;
  }

  // Saves what it can: the caller is about to report why the run ends.
  void save_before_failing() {
    try {
      save();
      note_checkpoint(writer_->wait());
    } catch (const std::exception&) {  // the first failure says more
    }
  }

  // `observed`: something watched the last step, which takes time that is not training's.
  void record_all(const std::vector<StepResult>& results, bool observed) {
    const std::exception_ptr failure = record_each(results, observed);
    if (!failure) return;
    record_each(trainer_.finish_all(), false);  // a GPU may have started more steps
    save_before_failing();
    std::rethrow_exception(failure);
  }

  // Returns the first failure to write a record, or null.
  std::exception_ptr record_each(const std::vector<StepResult>& results, bool observed) {
    if (results.empty()) return {};
    const double elapsed = seconds_since(last_record_) / static_cast<double>(results.size());
    last_record_ = Clock::now();
    std::exception_ptr failure;
    for (const StepResult& result : results) {
      const int64_t tokens = tokens_of_step(result.step);
      tokens_ += tokens;
      if (!observed || speed_.empty()) speed_.add(static_cast<double>(tokens), elapsed);
      energy_.add(static_cast<double>(tokens), seconds_since(start_));
      check_full_speed();
      const std::exception_ptr one = record(result, elapsed);
      if (!failure) failure = one;
    }
    return failure;
  }

  // The tokens of all ranks.
  int64_t tokens_of_step(int64_t step) const {
    return data::training_tokens(
        split_.train, {config_.train.batch, config_.model.context, config_.train.accumulate},
        static_cast<uint64_t>(config_.train.seed), step - 1);
  }

  // A run above the peak shows that the machine was busy when the peak was measured: no share of it
  // is shown then.
  void check_full_speed() {
    if (full_speed_ == 0 || speed_.tokens_per_second() <= full_speed_) return;
    full_speed_ = 0;
    output_.set_full_speed(full_speed_);
  }

  // Returns the failure to write it, or null.
  std::exception_ptr add_to_log(const Record& record) {
    try {
      log_->add(record);
    } catch (const Error&) {
      return std::current_exception();
    }
    if (const std::string warning = newest_->add(record); !warning.empty()) warn(warning);
    output_.set_ranks(trainer_.ranks().size(), trainer_.waiting());
    output_.show([&](Progress& progress) { progress.step(record); });
    return {};
  }

  // Returns the failure to write the record, or null. Such a run saves a checkpoint before it ends,
  // and a resumed run does not repeat the step: everything else is done as for any other.
  std::exception_ptr record(const StepResult& result, double elapsed) {
    seconds_ += elapsed;
    Record record{.step = result.step,
                  .loss = result.loss,
                  .lr = result.lr,
                  .gradient_norm = result.gradient_norm,
                  .scale = result.scale,
                  .applied = result.applied,
                  .skipped = result.skipped,
                  .tokens_per_second = speed_.tokens_per_second(),
                  .memory = memory::peak(trainer_.device()),
                  .seconds = seconds_,
                  .tokens = tokens_,
                  .joules_per_token = energy_.joules_per_token()};
    // No later step was started then.
    if (chain_->hashes_at(result.step)) record.link = chain_->add(trainer_);
    if (evaluates_at(result.step)) record.validation_loss = trainer_.evaluate(split_.validation);
    const std::exception_ptr failure = add_to_log(record);
    try {
      follow_up(record, result);
    } catch (const Error&) {
      if (!failure) throw;  // otherwise the first failure says more
    }
    return failure;
  }

  void follow_up(const Record& record, const StepResult& result) {
    const bool is_best = record.validation_loss && log_->losses().best_step == result.step;
    if (config_.run.keep_best && is_best) save_best();
    if (record.validation_loss && result.step < config_.train.steps) {
      samples_.show(seconds_);
      live_report_.update(folder_.path());
    }
    if (const std::string text = skips_.add(result); !text.empty()) note(text);
    for (const Alarm& alarm : watch_->add(trainer_, record)) {
      warn(fmt::format("step {}: {}", alarm.step, to_text(alarm)));
      if (observer_ != nullptr) observer_->note_alarm(alarm);
    }
    if (observer_ == nullptr) return;
    for (const std::string& text : observer_->after_step(trainer_, split_.train, result))
      note(text);
  }

  // All results have arrived, so no step is timed meanwhile.
  void save() {
    const auto write = [&] {
      note_checkpoint(writer_->save(trainer_, tokenizer_->model(), with_plan(), chain_->newest()));
    };
    try {
      // A checkpoint is never ahead of its log.
      if (observer_ != nullptr) observer_->before_checkpoint(trainer_);
      log_->sync();
    } catch (const Error&) {
      write();
      throw;
    }
    write();
    last_record_ = Clock::now();
  }

  // The checkpoint's companions: with auto_precision, the plan of its step, too.
  io::CompanionFiles with_plan() const {
    io::CompanionFiles files = companions_;
    const io::Path plan = folder_.path() / precision_plan_file;
    if (config_.precision.automatic && plan.exists())
      files[precision_plan_file] = io::read_text(plan, "train", 1 << 20);
    return files;
  }

  io::Path best_folder() const { return folder_.path() / "best"; }
  // False if keep_best is new in a resumed run whose lowest loss was before.
  bool has_best() const { return config_.run.keep_best && best_folder().exists(); }

  void save_best() {
    note_checkpoint(writer_->save_model(trainer_, tokenizer_->model(), companions_, best_folder()));
    last_record_ = Clock::now();
  }

  void note_checkpoint(const std::optional<fs::path>& written) {
    if (!written) return;
    if (written->filename() == best_folder().filename())
      return note("best so far: " + written->string());
    checkpoint_ = *written;
    if (const std::string warning = newest_->note_checkpoint(); !warning.empty()) warn(warning);
    const std::vector<Checkpoint> all = list_checkpoints(folder_.checkpoints());
    folder_.note_checkpoint(all.empty() ? -1 : all.back().step);
    note("checkpoint: " + checkpoint_.string());
  }

  RunResult finish() {
    if (const std::string text = skips_.total(); !text.empty()) note(text);
    output_.finish();
    RunResult result = result_of(log_->losses());
    result.checkpoint = checkpoint_;
    result.steps = trainer_.steps();
    result.interrupted = interrupted_;
    result.stopped_early = stopped_early_;
    result.failure = failure_text(watch_->steps(), log_->losses());
    result.difference = chain_->difference();
    if (const std::string equal = chain_->verified(); !equal.empty()) note("verified: " + equal);
    if (trainer_.audit() != nullptr) note(audit_text(*trainer_.audit()));
    result.seconds = seconds_;
    if (interrupted_)
      result.signal =
          signals_->stop_signal() != 0 ? signals_->stop_signal() : trainer_.stop_signal();
    if (!signals_->stop_requested() && !interrupted_ && config_.run.sample > 0 &&
        samples_.can_decode()) {
      output_.status("generating a sample");
      result.sample = samples_.generate(config_.run.sample);
      output_.finish();
    }
    const std::vector<ranks::RankTime> ranks = trainer_.rank_times();
    note_ranks(ranks);
    result.elapsed = seconds_since(start_);
    write_summary(summary(result.sample, ranks), folder_.path());
    // From the files, as `binade report` does. A folder that was removed at the end has no steps.
    if (!log_->empty()) write_report(read_run(folder_.path()), folder_.path() / "report.html");
    return result;
  }

  RunSummary summary(const std::string& sample, const std::vector<ranks::RankTime>& ranks) {
    RunSummary run;
    run.parameters = trainer_.model().parameter_count();
    run.trained_parameters = trained_parameters(trainer_.model());
    run.epoch_steps = epoch_steps_;
    run.steps = trainer_.steps();
    // A process that was killed after its last step knew its memory; this one took no step.
    run.memory = has_trained_ ? memory::statistics(trainer_.device()) : forecast_memory(config_);
    run.full_speed = full_speed_;
    if (samples_.can_decode())
      run.bytes_per_token =
          samples_.decoded([&] { return bytes_per_token(*tokenizer_, split_.validation); });
    run.sample = sample;
    run.origin = provenance(config_, folder_.command());
    run.ranks = ranks;
    return run;
  }

  void note_ranks(const std::vector<ranks::RankTime>& times) {
    if (times.empty()) return;
    double low = 1, high = 0, sent = 0;
    for (const ranks::RankTime& one : times) {
      const double waiting = one.seconds > 0 ? one.waited / one.seconds : 0;
      low = std::min(low, waiting);
      high = std::max(high, waiting);
      sent += one.sent;
    }
    note(fmt::format("{} ranks waited for each other {:.0f}% to {:.0f}% of the time and sent {}",
                     times.size(), 100 * low, 100 * high, bytes_text(static_cast<int64_t>(sent))));
  }

  const Clock::time_point start_ = Clock::now();
  Config config_;
  Observer* observer_;
  RunOutput output_;
  std::unique_ptr<const data::Tokenizer> tokenizer_;
  io::CompanionFiles companions_;
  data::Split split_;
  Trainer trainer_;
  RunSamples samples_{trainer_, *tokenizer_, split_.validation, output_};
  RunFolder folder_;
  Origin origin_;
  fs::path checkpoint_;
  std::optional<MetricsLog> log_;
  std::optional<TrainerWatch> watch_;
  std::optional<RunChain> chain_;
  SkipNotes skips_;
  LiveReport live_report_;
  std::optional<data::Loader> loader_;
  std::optional<CheckpointWriter> writer_;
  std::optional<SignalGuard> signals_;
  double seconds_ = 0;
  SpeedWindow speed_;
  int64_t tokens_ = 0;  // of all steps so far
  EnergyMeter energy_{[device = trainer_.device()] { return backend::energy_joules(device); }};
  Clock::time_point last_record_ = Clock::now();
  double full_speed_ = 0;
  bool interrupted_ = false, stopped_early_ = false;
  bool save_requested_ = false;
  bool has_trained_ = false;  // in this process
  std::optional<NewestNumbers> newest_;
  // Steps of one pass over the data; 0: there is no such thing.
  double epoch_steps_ = steps_per_epoch(config_, split_.train);
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
