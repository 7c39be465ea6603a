#pragma once

#include <string>

#include "binade/train/metrics.h"

namespace binade::train {

// A record as a person reads it. The most important comes first.
std::string plain_line(const Record& record, int64_t steps);

// The same with the time left, at most `width` - 1 characters, so that a terminal does not wrap it.
std::string progress_line(const Record& record, int64_t steps, int width);

// "1.5 MB", "93 s", "1 h 05 min".
std::string bytes_text(int64_t bytes);
std::string time_text(double seconds);

// What a run shows while it goes on: a line that renews itself on a terminal, lines elsewhere.
class Progress {
 public:
  enum class Mode : uint8_t { normal, quiet, json };
  Progress(Mode mode, int64_t steps, int64_t log_every);

  void step(const Record& record);
  // A line that stays: checkpoints, warnings. Not for quiet and json.
  void note(const std::string& text);
  // Leaves the terminal on a fresh line.
  void finish();

 private:
  Mode mode_;
  int64_t steps_, log_every_;
  bool terminal_;
  bool line_open_ = false;
};

}  // namespace binade::train
