#pragma once

#include <chrono>
#include <string>

#include "binade/train/run/metrics.h"

namespace binade::train {

// The totals that a record is shown relative to.
struct Goal {
  int64_t steps = 0;       // in all
  double full_speed = 0;   // tokens/s at the machine's matmul rate; 0: unknown
  double epoch_steps = 0;  // steps of one pass over the data; 0: there is no such thing
  int64_t ranks = 1;       // processes that train together
  double waiting = 0;      // fraction of their time that they wait for each other
};

// A record as a line of text, the most important numbers first.
std::string plain_line(const Record& record, const Goal& goal);

// A line that later ones replace, or one that stays for its validation loss.
enum class LineKind : uint8_t { updating, permanent };

// plain_line() with the time left, in at most `width` - 1 characters, so that no terminal wraps
// it: words are shortened first, then numbers are dropped. The validation loss is the last to go
// from a permanent line, and the time left the first.
std::string progress_line(const Record& record, const Goal& goal, int width,
                          LineKind kind = LineKind::updating);

// The beginning of a text as two lines of at most `width` - 1 columns, its white space shortened to
// single spaces.
std::string two_lines(std::string_view text, int width);

// "1,500 of 60,000 parameters (2.5%)", "all 60,000 parameters".
std::string parameters_text(int64_t trained, int64_t all);

// "1.5 MB", "93 s", "1 h 05 min".
std::string bytes_text(int64_t bytes);
std::string time_text(double seconds);

// Prints the progress of a run: a line that updates itself on a terminal, separate lines elsewhere.
class Progress {
 public:
  enum class Mode : uint8_t { normal, quiet, json };
  Progress(Mode mode, int64_t steps, int64_t log_every);
  // An error message follows on a line of its own.
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows later steps with their fraction of this many tokens per second.
  void set_full_speed(double full_speed) { goal_.full_speed = full_speed; }
  // Shows later steps with the passes over the data so far.
  void set_epoch(double steps) { goal_.epoch_steps = steps; }
  // Shows later steps with the number of ranks and how much they wait.
  void set_ranks(int64_t ranks, double waiting) {
    goal_.ranks = ranks;
    goal_.waiting = waiting;
  }
  void step(const Record& record);
  // Prints a line that stays, such as a checkpoint or a warning. Prints nothing if quiet or json.
  void note(const std::string& text);
  // Prints a warning to stderr, in every mode.
  void warn(const std::string& text);
  // Prints two lines of generated text.
  void sample(const std::string& text);
  // Shows a line on a terminal until the next one: what takes time before the first step.
  void status(const std::string& text);
  // Removes the updating line.
  void finish();

  bool prints_text() const { return mode_ == Mode::normal; }

 private:
  using Clock = std::chrono::steady_clock;

  void show(const std::string& line);
  bool redraws();

  Mode mode_;
  Goal goal_;
  int64_t log_every_;
  std::optional<double> validation_loss_;  // the last one: it stays in the line
  bool terminal_, color_;
  bool line_open_ = false;
  Clock::time_point last_draw_ = {};
};

}  // namespace binade::train
