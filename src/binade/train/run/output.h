#pragma once

#include <string>
#include <system_error>

#include "binade/train/run/progress.h"

namespace binade::train {

// What a run shows on standard output, until a write fails: training continues without it.
class RunOutput {
 public:
  RunOutput(Progress::Mode mode, int64_t steps, int64_t log_every)
      : progress_(mode, steps, log_every) {}

  // Calls action(progress) while output works.
  template <class Action>
  void show(Action&& action) {
    if (!works_) return;
    try {
      action(progress_);
    } catch (const std::system_error&) {
      works_ = false;
    }
  }
  void note(const std::string& text) {
    show([&](Progress& progress) { progress.note(text); });
  }
  void warn(const std::string& text) {
    show([&](Progress& progress) { progress.warn(text); });
  }
  void status(const std::string& text) {
    show([&](Progress& progress) { progress.status(text); });
  }
  void finish() {
    show([](Progress& progress) { progress.finish(); });
  }

  void set_full_speed(double tokens_per_second) { progress_.set_full_speed(tokens_per_second); }
  void set_epoch(double steps) { progress_.set_epoch(steps); }
  void set_ranks(int64_t ranks, double waiting) { progress_.set_ranks(ranks, waiting); }
  // Whether lines of text appear.
  bool prints_text() const { return works_ && progress_.prints_text(); }

 private:
  Progress progress_;
  bool works_ = true;
};

}  // namespace binade::train
