#pragma once

#include <string>

#include "binade/train/metrics.h"

namespace binade::train {

// What a record is seen against.
struct Goal {
  int64_t steps = 0;      // in all
  double full_speed = 0;  // tokens per second at the machine's peak; 0: not known
};

// A record as a person reads it. The most important comes first.
std::string plain_line(const Record& record, const Goal& goal);

// The same with the time left, in at most `width` - 1 characters, so that a terminal does not wrap
// it: shorter words where room is short, then fewer numbers.
std::string progress_line(const Record& record, const Goal& goal, int width);

// "1.5 MB", "93 s", "1 h 05 min".
std::string bytes_text(int64_t bytes);
std::string time_text(double seconds);

// What a run shows while it goes on: a line that renews itself on a terminal, lines elsewhere.
class Progress {
 public:
  enum class Mode : uint8_t { normal, quiet, json };
  Progress(Mode mode, int64_t steps, int64_t log_every);

  // From now on steps are shown with their share of this many tokens per second.
  void set_full_speed(double full_speed) { goal_.full_speed = full_speed; }
  void step(const Record& record);
  // A line that stays: checkpoints, warnings. Not for quiet and json.
  void note(const std::string& text);
  // Leaves the terminal on a fresh line.
  void finish();

 private:
  Mode mode_;
  Goal goal_;
  int64_t log_every_;
  std::optional<double> validation_loss_;  // the last one: it stays in the line
  bool terminal_;
  bool line_open_ = false;
};

}  // namespace binade::train
