#include "binade/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace binade::train {
namespace {

int terminal_width() {
  winsize size = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, units[unit]);
}

std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(std::max(seconds, 0.0)));
  if (whole < 120) return fmt::format("{} s", whole);
  if (whole < 7200) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string plain_line(const Record& r, int64_t steps) {
  std::string line = fmt::format("step {}/{}", r.step, steps);
  if (r.step > 0) line += fmt::format("  loss {:.4f}", r.loss);
  if (r.validation_loss) line += fmt::format("  val {:.4f}", *r.validation_loss);
  if (r.step == 0) return line;
  line += fmt::format("  lr {:.2e}  grad {:.2f}", r.lr, r.gradient_norm);
  if (r.scale != 1) line += fmt::format("  scale {:g}", r.scale);
  if (r.skipped > 0) line += fmt::format("  skipped {}", r.skipped);
  return line + fmt::format("  {:.0f} tok/s  {}", r.tokens_per_second, bytes_text(r.memory));
}

std::string progress_line(const Record& r, int64_t steps, int width) {
  const double left =
      r.step > 0 ? r.seconds / static_cast<double>(r.step) * static_cast<double>(steps - r.step)
                 : 0;
  std::string line = plain_line(r, steps);
  if (r.step > 0) line += "  " + time_text(left) + " left";
  const auto room = static_cast<size_t>(std::max(width - 1, 0));
  if (line.size() > room) line.resize(room);
  return line;
}

Progress::Progress(Mode mode, int64_t steps, int64_t log_every)
    : mode_(mode), steps_(steps), log_every_(log_every), terminal_(::isatty(STDOUT_FILENO) != 0) {}

void Progress::step(const Record& record) {
  const bool due = record.step % log_every_ == 0 || record.step == 1 || record.step == steps_ ||
                   record.validation_loss;
  if (mode_ == Mode::quiet) return;
  if (mode_ == Mode::json) {
    if (due) fmt::print("{}\n", to_json(record));
  } else if (terminal_) {
    fmt::print("\r{}\x1b[K", progress_line(record, steps_, terminal_width()));
    line_open_ = true;
    // Validations stay on the screen as a history of the run.
    if (record.validation_loss) finish();
  } else if (due) {
    fmt::print("{}\n", plain_line(record, steps_));
  }
  std::fflush(stdout);
}

void Progress::note(const std::string& text) {
  if (mode_ != Mode::normal) return;
  finish();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Progress::finish() {
  if (line_open_) fmt::print("\n");
  line_open_ = false;
}

}  // namespace binade::train
