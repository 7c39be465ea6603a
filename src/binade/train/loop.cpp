#include "binade/train/loop.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <limits>

#include "binade/amp/autocast.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/data/corpus.h"
#include "binade/io/file.h"
#include "binade/train/checkpoint.h"
#include "binade/train/generate.h"
#include "binade/train/report.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t stop_requested = 0;

// Ctrl-C sets a flag while it lives; a second one has the usual effect.
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

bool is_there(const fs::path& path) {
  std::error_code ignored;  // making the folder says what is wrong
  return fs::exists(path, ignored);
}

fs::path next_free_folder() {
  for (int64_t i = 1;; ++i) {
    const fs::path folder = fs::path("runs") / std::to_string(i);
    if (!is_there(folder)) return folder;
  }
}

// The folder of the run, made where needed. An earlier run in it is only touched by --resume.
fs::path prepare_folder(const Config& config) {
  const fs::path folder = config.out.empty() ? next_free_folder() : fs::path(config.out);
  if (!config.resume && is_there(folder / "metrics.jsonl")) {
    fail("train", {.argument = "--out " + folder.string(),
                   .expected = "a new folder",
                   .found = "one with a run in it",
                   .hint = "add --resume to go on with that run, or name another folder"});
  }
  if (config.resume && !is_there(folder / "config.toml")) {
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

void save_config(const Config& config, const fs::path& folder) {
  io::AtomicFile file(folder / "config.toml", "train");
  file.append(to_toml(config));
  file.commit();
}

// One run from start or checkpoint to end.
class Loop {
 public:
  Loop(const Config& config, Progress::Mode mode, Observer* observer)
      : config_(config),
        observer_(observer),
        progress_(mode, config.steps, config.log_every),
        split_(data::split(data::read_tokens(config.data, config.vocab), config.validation,
                           config.context, config.data)),
        trainer_(config) {}

  RunResult run() {
    folder_ = prepare_folder(config_);
    const std::vector<Checkpoint> checkpoints = list_checkpoints(folder_ / "checkpoints");
    // A run that ended before its first checkpoint starts again.
    if (config_.resume && !checkpoints.empty()) load_checkpoint(trainer_, checkpoints.back().path);
    Config saved = config_;
    saved.out = folder_.string();
    save_config(saved, folder_);
    log_.emplace(folder_, trainer_.steps());
    introduce();
    if (observer_ != nullptr) observer_->begin(trainer_, folder_);
    if (!log_->records().empty()) seconds_ = log_->records().back().seconds;
    train();
    return finish();
  }

 private:
  void introduce() {
    progress_.note(fmt::format(
        "{} {} with {} parameters, {}, {} training and {} validation tokens, {} threads",
        config_.resume ? fmt::format("resuming at step {}:", trainer_.steps()) : "training",
        config_.model, trainer_.model().parameter_count(), config_.precision, split_.train.size(),
        split_.validation.size(), threads()));
    progress_.note("run folder: " + folder_.string());
  }

  static bool every(int64_t interval, int64_t step) { return interval > 0 && step % interval == 0; }

  void train() {
    const InterruptGuard guard;
    if (trainer_.steps() == 0) record_start();
    while (trainer_.steps() < config_.steps && stop_requested == 0) {
      take_step();
      const int64_t step = trainer_.steps();
      if (every(config_.checkpoint_every, step) && step < config_.steps) save();
    }
    interrupted_ = trainer_.steps() < config_.steps;
    save();
  }

  // Step 0 is the untrained model: there is a validation loss to compare with, and nothing else
  // yet.
  void record_start() {
    const Record record{.step = 0,
                        .loss = std::numeric_limits<double>::quiet_NaN(),
                        .validation_loss = trainer_.evaluate(split_.validation),
                        .memory = memory::peak()};
    log_->add(record);
    progress_.step(record);
  }

  void take_step() {
    const auto begin = Clock::now();
    if (observer_ != nullptr) observer_->before_step(trainer_);
    const StepResult result = trainer_.step(split_.train);
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    seconds_ += elapsed;
    const auto tokens = static_cast<double>(config_.accumulate * config_.batch * config_.context);
    Record record{.step = result.step,
                  .loss = result.loss,
                  .lr = result.lr,
                  .gradient_norm = result.gradient_norm,
                  .scale = result.scale,
                  .applied = result.applied,
                  .skipped = trainer_.skipped(),
                  .tokens_per_second = tokens / elapsed,
                  .memory = memory::peak(),
                  .seconds = seconds_};
    if (every(config_.eval_every, result.step) || result.step == config_.steps)
      record.validation_loss = trainer_.evaluate(split_.validation);
    log_->add(record);
    progress_.step(record);
    if (!result.applied)
      progress_.note(fmt::format("step {} skipped: {}", result.step, result.reason));
    if (observer_ == nullptr) return;
    for (const std::string& note : observer_->after_step(trainer_, split_.train, result))
      progress_.note(note);
  }

  void save() {
    checkpoint_ = save_checkpoint(trainer_, folder_ / "checkpoints", config_.keep);
    progress_.note("checkpoint: " + checkpoint_.string());
  }

  RunResult finish() {
    progress_.finish();
    RunResult result{.folder = folder_,
                     .checkpoint = checkpoint_,
                     .report = folder_ / "report.html",
                     .steps = trainer_.steps(),
                     .interrupted = interrupted_,
                     .seconds = seconds_};
    for (const Record& record : log_->records()) {
      if (!record.validation_loss) continue;
      if (!result.first_validation_loss) result.first_validation_loss = record.validation_loss;
      result.last_validation_loss = record.validation_loss;
    }
    if (!interrupted_ && config_.sample > 0 && config_.vocab == 256) result.sample = sample();
    write_report({trainer_.config(), trainer_.model().parameter_count(), log_->records(),
                  memory::statistics(), result.sample},
                 result.report);
    return result;
  }

  std::string sample() {
    const amp::Autocast cast(autocast_type(config_), uses_autocast(config_));
    return text_of(
        generate(trainer_.model(), {'\n'},
                 {.tokens = config_.sample, .seed = static_cast<uint64_t>(config_.seed)}));
  }

  Config config_;
  Observer* observer_;
  Progress progress_;
  data::Split split_;
  Trainer trainer_;
  fs::path folder_, checkpoint_;
  std::optional<MetricsLog> log_;
  double seconds_ = 0;
  bool interrupted_ = false;
};

}  // namespace

RunResult run(const Config& config, Progress::Mode mode, Observer* observer) {
  if (config.threads > 0) set_threads(static_cast<int>(config.threads));
  return Loop(config, mode, observer).run();
}

}  // namespace binade::train
