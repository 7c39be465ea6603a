#include "binade/train/run/loop.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "binade/lab/doctor.h"
#include "binade/train/config/keys.h"
#include "binade/train/run/signals.h"
#include "bindings.h"

namespace binade::python {
namespace {

// A training run on a thread of its own, as an iterator over its steps. The thread waits until a
// step is asked for, so that the caller can look at the run between steps.
class TrainingRun {
 public:
  explicit TrainingRun(const train::Config& config) : thread_([this, config] { run(config); }) {}

  ~TrainingRun() {
    const nb::gil_scoped_release no_gil;
    stop();
    thread_.join();
  }
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Waits for the next step. Returns whether there was one; throws what ended the run.
  bool next() {
    std::unique_lock lock(mutex_);
    taken_ = reported_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return reported_ != taken_ || finished_; });
    if (reported_ != taken_) return true;
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    return false;
  }

  // Ends the run after its current step, with a checkpoint.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (!finished_) train::request_stop();
    changed_.notify_all();
  }

  bool finished() const {
    const std::lock_guard lock(mutex_);
    return finished_;
  }
  // Waits for the end of a run that was stopped.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_; });
  }

  std::string folder() const {
    const std::lock_guard lock(mutex_);
    return folder_;
  }
  // The steps taken before the run was resumed.
  int64_t first_step() const {
    const std::lock_guard lock(mutex_);
    return first_step_;
  }
  std::optional<train::RunResult> result() const {
    const std::lock_guard lock(mutex_);
    return result_;
  }

 private:
  // The doctor of `binade train`, which also hands every step to the iterator.
  class Feed : public lab::Doctor {
   public:
    explicit Feed(TrainingRun& run) : run_(run) {}

    std::vector<std::string> begin(train::Trainer& trainer, const io::Path& folder) override {
      std::vector<std::string> warnings = lab::Doctor::begin(trainer, folder);
      const std::lock_guard lock(run_.mutex_);
      run_.folder_ = folder.string();
      run_.first_step_ = trainer.steps();
      return warnings;
    }
    std::vector<std::string> after_step(train::Trainer& trainer, const data::Tokens& tokens,
                                        const train::StepResult& result) override {
      auto notes = lab::Doctor::after_step(trainer, tokens, result);
      run_.report();
      return notes;
    }

   private:
    TrainingRun& run_;
  };

  void run(const train::Config& config) {
    std::optional<train::RunResult> result;
    std::exception_ptr failure;
    try {
      Feed feed(*this);
      result = train::run(config, train::Progress::Mode::quiet, &feed);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    failure_ = failure;
    finished_ = true;
    changed_.notify_all();
  }

  // On the run's thread: a step is in metrics.jsonl. Waits until the next one is asked for.
  void report() {
    std::unique_lock lock(mutex_);
    ++reported_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return stopping_ || taken_ == reported_; });
    if (stopping_) train::request_stop();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t reported_ = 0;  // steps that have ended
  int64_t taken_ = 0;     // of these, what the iterator has returned
  bool stopping_ = false, finished_ = false;
  std::string folder_;
  int64_t first_step_ = 0;
  std::optional<train::RunResult> result_;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses the others
};

train::Config resolve(const std::string& file,
                      const std::vector<std::pair<std::string, std::string>>& options) {
  return train::resolve({file, options});
}

}  // namespace

void bind_train(nb::module_& m) {
  nb::class_<train::Config>(m, "Config", "A resolved configuration of a training run.")
      .def("__str__", [](const train::Config& self) { return train::to_toml(self); });
  m.def("_resolve", &resolve, "file"_a, "options"_a);
  m.def("_keys", [] {
    std::vector<std::pair<std::string, std::string>> keys;
    for (const train::Key& key : train::keys())
      keys.emplace_back(train::option_name(key).substr(2), std::string(key.help));
    return keys;
  });
  nb::class_<train::RunResult>(m, "RunResult", "How a training run ended.")
      .def_prop_ro("folder", [](const train::RunResult& self) { return self.folder.string(); })
      .def_prop_ro("checkpoint",
                   [](const train::RunResult& self) { return self.checkpoint.string(); })
      .def_prop_ro("report", [](const train::RunResult& self) { return self.report.string(); })
      .def_ro("steps", &train::RunResult::steps)
      .def_ro("interrupted", &train::RunResult::interrupted)
      .def_ro("first_validation_loss", &train::RunResult::first_validation_loss)
      .def_ro("last_validation_loss", &train::RunResult::last_validation_loss)
      .def_ro("seconds", &train::RunResult::seconds)
      .def_ro("sample", &train::RunResult::sample);
  nb::class_<TrainingRun>(m, "_TrainingRun")
      .def(nb::init<const train::Config&>())
      .def("next", &TrainingRun::next, ReleaseGil())
      .def("stop", &TrainingRun::stop, ReleaseGil())
      .def("wait", &TrainingRun::wait, ReleaseGil())
      .def_prop_ro("finished", &TrainingRun::finished)
      .def_prop_ro("folder", &TrainingRun::folder)
      .def_prop_ro("first_step", &TrainingRun::first_step)
      .def_prop_ro("result", &TrainingRun::result);
}

}  // namespace binade::python
