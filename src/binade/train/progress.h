#pragma once

#include <string>

#include "binade/train/metrics.h"

namespace binade::train {

// The totals that a record is shown relative to.
struct Goal {
  int64_t steps = 0;      // in all
  double full_speed = 0;  // tokens/s at the machine's matmul rate; 0: unknown
};

// A record as a line of text, the most important numbers first.
std::string plain_line(const Record& record, const Goal& goal);

// The same with the time left, in at most `width` - 1 characters, so that a terminal does not wrap
// it: words are shortened first, then numbers are dropped.
std::string progress_line(const Record& record, const Goal& goal, int width);

// "1.5 MB", "93 s", "1 h 05 min".
std::string bytes_text(int64_t bytes);
std::string time_text(double seconds);

// Prints the progress of a run: a line that updates itself on a terminal, separate lines elsewhere.
class Progress {
 public:
  enum class Mode : uint8_t { normal, quiet, json };
  Progress(Mode mode, int64_t steps, int64_t log_every);

  // Shows later steps with their fraction of this many tokens per second.
  void set_full_speed(double full_speed) { goal_.full_speed = full_speed; }
  void step(const Record& record);
  // Prints a line that stays, such as a checkpoint or a warning. Prints nothing if quiet or json.
  void note(const std::string& text);
  // Ends the updating line.
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
