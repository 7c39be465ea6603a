#include "binade/train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>

#include "binade/amp/autocast.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/base/text.h"
#include "binade/data/corpus.h"
#include "binade/io/file.h"
#include "binade/train/checkpoint_writer.h"
#include "binade/train/evaluate.h"
#include "binade/train/generate.h"
#include "binade/train/report/run_summary.h"
#include "binade/train/throughput.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t stop_requested = 0;

// For its lifetime, Ctrl-C sets a flag; a second one has the usual effect.
class InterruptGuard {
 public:
  InterruptGuard() {
    stop_requested = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { stop_requested = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &action, &previous_);
  }
  ~InterruptGuard() { ::sigaction(SIGINT, &previous_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction previous_ = {};
};

bool path_exists(const fs::path& path) {
  std::error_code ignored;  // creating the folder reports what is wrong
  return fs::exists(path, ignored);
}

fs::path next_free_folder() {
  for (int64_t i = 1;; ++i) {
    const fs::path folder = fs::path("runs") / std::to_string(i);
    if (!path_exists(folder)) return folder;
  }
}

// The run's folder, created if needed. Only --resume touches an earlier run in it.
fs::path prepare_folder(const Config& config) {
  const fs::path folder = config.out.empty() ? next_free_folder() : fs::path(config.out);
  if (!config.resume && path_exists(folder / "metrics.jsonl")) {
    fail("train", {.argument = "--out " + folder.string(),
                   .expected = "a new folder",
                   .found = "one with a run in it",
                   .hint = "add --resume to continue that run, or name another folder"});
  }
  if (config.resume && !path_exists(folder / "config.toml")) {
    fail("train",
         {.argument = "--resume", .expected = "a run in " + folder.string(), .found = "none"});
  }
  std::error_code error;
  fs::create_directories(folder / "checkpoints", error);
  if (error)
    fail("train", {.argument = "--out " + folder.string(),
                   .expected = "a folder to write to",
                   .found = error.message()});
  remove_leftovers(folder / "checkpoints");
  return folder;
}

void write_file(const fs::path& path, std::string_view content) {
  io::AtomicFile file(path, "train");
  file.append(content);
  file.commit();
}

// Weights are useless with the ids of another tokenizer.
void check_same_tokenizer(const fs::path& checkpoint, const data::Tokenizer& tokenizer) {
  const auto file = data::find_tokenizer(checkpoint);
  const std::string saved = file ? io::read_text(*file, "train", int64_t{1} << 30) : std::string();
  if (saved == tokenizer.model()) return;
  const auto in_words = [](std::string_view model) {
    return model.empty() ? "bytes" : fmt::format("a model of {} bytes", model.size());
  };
  fail("train", {.argument = "--resume from " + checkpoint.string(),
                 .expected = "the tokenizer of the checkpoint, " + in_words(saved),
                 .found = "another: " + in_words(tokenizer.model()),
                 .hint = "resume with the run's own config.toml"});
}

// Those of the model to start from, with the tokenizer's own instead if it comes from another
// folder.
io::CompanionFiles companions_of(const Config& config, const fs::path& run) {
  if (config.resume) return io::read_companions(run, "train");
  io::CompanionFiles files;
  const fs::path model =
      config.init_from.empty() ? fs::path() : io::model_folder(config.init_from, "--init-from");
  if (!model.empty()) files = io::read_companions(model, "train");
  std::error_code ignored;
  if (config.tokenizer == data::byte_tokenizer || config.tokenizer == model.string() ||
      !fs::is_directory(config.tokenizer, ignored))
    return files;
  io::CompanionFiles own = io::read_companions(config.tokenizer, "train");
  own.erase("generation_config.json");
  if (const auto found = files.find("generation_config.json"); found != files.end())
    own.insert(*found);
  return own;
}

// One run, from its start or a checkpoint to its end.
class Loop {
 public:
  Loop(const Config& config, Progress::Mode mode, Observer* observer)
      : config_(config),
        observer_(observer),
        progress_(mode, config.steps, config.log_every),
        tokenizer_(data::open_tokenizer(config.tokenizer)),
        split_(read_data()),
        trainer_(config) {}

  RunResult run() {
    folder_ = prepare_folder(config_);
    const std::vector<Checkpoint> checkpoints = list_checkpoints(folder_ / "checkpoints");
    // A run without a checkpoint starts over.
    if (config_.resume && !checkpoints.empty()) {
      check_same_tokenizer(checkpoints.back().path, *tokenizer_);
      load_checkpoint(trainer_, checkpoints.back().path);
    } else if (!config_.init_from.empty()) {
      trainer_.init_from(config_.init_from);
    }
    full_speed_ = full_speed(config_);
    progress_.set_full_speed(full_speed_);
    memory::reset_peak(trainer_.device());
    save_settings();
    log_.emplace(folder_, trainer_.steps());
    writer_.emplace(folder_ / "checkpoints", config_.keep);
    loader_.emplace(split_.train, data::Loader::Options{.shape = {config_.batch, config_.context},
                                                        .accumulate = config_.accumulate,
                                                        .seed = static_cast<uint64_t>(config_.seed),
                                                        .step = trainer_.steps()});
    introduce();
    if (observer_ != nullptr) observer_->begin(trainer_, folder_);
    if (!log_->records().empty()) seconds_ = log_->records().back().seconds;
    train();
    return finish();
  }

 private:
  data::Split read_data() {
    progress_.status("reading " + config_.data);
    return data::read_split({.where = config_.data,
                             .tokenizer = tokenizer_.get(),
                             .vocab = config_.vocab,
                             .batch = config_.batch,
                             .context = config_.context,
                             .validation = config_.validation,
                             .progress = [this](size_t done, size_t all) {
                               progress_.status(fmt::format("tokenizing {}: {}%", config_.data,
                                                            100 * done / std::max<size_t>(all, 1)));
                             }});
  }

  // Resuming needs only the run's folder, so the tokenizer is saved too.
  void save_settings() {
    Config saved = config_;
    saved.out = folder_.string();
    if (!tokenizer_->model().empty()) {
      saved.tokenizer = (folder_ / data::tokenizer_file(tokenizer_->model())).string();
      write_file(saved.tokenizer, tokenizer_->model());
    }
    companions_ = companions_of(config_, folder_);
    io::write_companions(companions_, folder_, "train");
    write_file(folder_ / "config.toml", to_toml(saved));
  }

  void introduce() {
    const std::string& family = trainer_.model().config().family;
    progress_.note(fmt::format(
        "{} {}, {} parameters, {}, {} thread{}",
        config_.resume ? fmt::format("resuming at step {}:", trainer_.steps()) : "training",
        family.empty() ? name(config_.model) : family, grouped(trainer_.model().parameter_count()),
        name(config_.precision), threads(), threads() == 1 ? "" : "s"));
    progress_.note(fmt::format("data: {} training and {} validation {}",
                               grouped(split_.train.size()), grouped(split_.validation.size()),
                               tokenizer_->model().empty() && config_.vocab == data::byte_vocabulary
                                   ? "bytes"
                                   : "tokens"));
    progress_.note("run folder: " + folder_.string());
  }

  static bool every(int64_t interval, int64_t step) { return interval > 0 && step % interval == 0; }

  void train() {
    const InterruptGuard guard;
    if (trainer_.steps() == 0) record_start();
    last_record_ = Clock::now();
    while (trainer_.steps() < config_.steps && stop_requested == 0) {
      take_step();
      note_checkpoint(writer_->poll());
      if (saves_at(trainer_.steps())) save();
    }
    interrupted_ = trainer_.steps() < config_.steps;
    save();
    note_checkpoint(writer_->wait());
  }

  // Step 0 is the untrained model, which has nothing but a validation loss.
  void record_start() {
    const Record record{.step = 0,
                        .loss = std::numeric_limits<double>::quiet_NaN(),
                        .validation_loss = trainer_.evaluate(split_.validation),
                        .memory = memory::peak(trainer_.device())};
    log_->add(record);
    progress_.step(record);
    show_sample();
    last_record_ = Clock::now();
  }

  bool evaluates_at(int64_t step) const {
    return every(config_.eval_every, step) || step == config_.steps;
  }
  bool saves_at(int64_t step) const {
    return every(config_.checkpoint_every, step) && step < config_.steps;
  }

  // Keeps a GPU busy: the result of a step is recorded when it arrives, some steps later. Before a
  // validation or a checkpoint, and at the end, all results are awaited.
  void take_step() {
    const bool awaited = observer_ != nullptr && observer_->before_step(trainer_);
    trainer_.start_step(*loader_);
    const int64_t step = trainer_.steps();
    const bool all = awaited || evaluates_at(step) || saves_at(step) || stop_requested != 0;
    const std::vector<StepResult> results = all ? trainer_.finish_all() : trainer_.finished();
    const auto now = Clock::now();
    const double elapsed = std::chrono::duration<double>(now - last_record_).count() /
                           static_cast<double>(std::max<size_t>(results.size(), 1));
    if (!results.empty()) last_record_ = now;
    const auto tokens = static_cast<double>(config_.accumulate * config_.batch * config_.context);
    for (const StepResult& result : results) {
      // Observing a step takes time that is not training's.
      if (!awaited || speed_.empty()) speed_.add(tokens, elapsed);
      record(result, elapsed);
    }
    // Nothing is pending then, so the time since belongs to validations and statistics.
    if (all) last_record_ = Clock::now();
  }

  void record(const StepResult& result, double elapsed) {
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
                  .seconds = seconds_};
    if (evaluates_at(result.step)) record.validation_loss = trainer_.evaluate(split_.validation);
    log_->add(record);
    progress_.step(record);
    if (record.validation_loss && result.step < config_.steps) show_sample();
    if (!result.applied)
      progress_.note(fmt::format("step {} skipped: {}", result.step, result.reason));
    if (observer_ == nullptr) return;
    for (const std::string& note : observer_->after_step(trainer_, split_.train, result))
      progress_.note(note);
  }

  // All results have arrived, so no step is timed meanwhile.
  void save() {
    note_checkpoint(writer_->save(trainer_, tokenizer_->model(), companions_));
    last_record_ = Clock::now();
  }

  void note_checkpoint(const std::optional<fs::path>& written) {
    if (!written) return;
    checkpoint_ = *written;
    progress_.note("checkpoint: " + checkpoint_.string());
  }

  RunResult finish() {
    progress_.finish();
    RunResult result{
        .folder = folder_,
        .checkpoint = checkpoint_,
        .report = folder_ / "report.html",
        .steps = trainer_.steps(),
        .interrupted = interrupted_,
        .seconds = seconds_,
        .bytes = config_.vocab == data::byte_vocabulary && tokenizer_->model().empty()};
    for (const Record& record : log_->records()) {
      if (!record.validation_loss) continue;
      if (++result.validations == 1) result.first_validation_loss = record.validation_loss;
      result.last_validation_loss = record.validation_loss;
    }
    if (!interrupted_ && config_.sample > 0 && can_decode()) {
      progress_.status("generating a sample");
      result.sample = sample(config_.sample);
      progress_.finish();
    }
    result.elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
    write_summary(
        {.parameters = trainer_.model().parameter_count(),
         .memory = memory::statistics(trainer_.device()),
         .full_speed = full_speed_,
         .bytes_per_token = can_decode() ? bytes_per_token(*tokenizer_, split_.validation) : 0,
         .sample = result.sample,
         .origin = provenance(config_)},
        folder_);
    // From the files, as `binade report` does.
    write_report(read_run(folder_), result.report);
    return result;
  }

  // Whether the tokenizer can decode the tokens: that of a token file may be unknown.
  bool can_decode() const {
    return config_.vocab == data::byte_vocabulary || !tokenizer_->model().empty();
  }

  std::string sample(int64_t tokens) {
    std::string text;
    trainer_.run_between_steps([&] {
      const amp::Autocast cast(autocast_state(config_));
      text = printable(tokenizer_->decode(
          generate(trainer_.model(), tokenizer_->encode_prompt("\n"),
                   {.tokens = tokens, .seed = static_cast<uint64_t>(config_.seed)})));
    });
    return text;
  }

  // Two lines after a validation, which show noise become text, unless generating them takes a
  // noticeable part of the run's time.
  void show_sample() {
    constexpr int64_t tokens = 160;                       // two lines of 80 columns, by bytes
    constexpr double max_fraction = 0.05, unnoticed = 1;  // seconds
    if (!progress_.prints_text() || config_.sample == 0 || !can_decode()) return;
    if (sample_seconds_ > std::max(max_fraction * seconds_, unnoticed)) return;
    const auto begin = Clock::now();
    progress_.sample(sample(tokens));
    sample_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Clock::time_point begin_ = Clock::now();
  Config config_;
  Observer* observer_;
  Progress progress_;
  std::unique_ptr<const data::Tokenizer> tokenizer_;
  io::CompanionFiles companions_;
  data::Split split_;
  Trainer trainer_;
  fs::path folder_, checkpoint_;
  std::optional<MetricsLog> log_;
  std::optional<data::Loader> loader_;
  std::optional<CheckpointWriter> writer_;
  double seconds_ = 0, sample_seconds_ = 0;
  SpeedWindow speed_;
  Clock::time_point last_record_ = begin_;
  double full_speed_ = 0;
  bool interrupted_ = false;
};

}  // namespace

void request_stop() { stop_requested = 1; }

RunResult run(const Config& config, Progress::Mode mode, Observer* observer) {
  check_device(config);
  if (config.threads > 0) set_threads(static_cast<int>(config.threads));
  return Loop(config, mode, observer).run();
}

}  // namespace binade::train
