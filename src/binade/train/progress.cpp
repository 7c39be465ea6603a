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

enum class Words : uint8_t { full, few };

// A part of a line, and its rank: if the line is too long, the highest rank is dropped first.
struct Part {
  std::string text;
  int rank;
};

std::vector<Part> parts_of(const Record& r, const Goal& goal, Words words) {
  const bool full = words == Words::full;
  std::vector<Part> parts;
  parts.push_back({fmt::format("{}{}/{}", full ? "step " : "", r.step, goal.steps), 0});
  if (r.step > 0) parts.push_back({fmt::format("loss {:.4f}", r.loss), 1});
  if (r.validation_loss) parts.push_back({fmt::format("val {:.4f}", *r.validation_loss), 3});
  if (r.step == 0) return parts;
  parts.push_back({fmt::format("lr {:.{}e}", r.lr, full ? 2 : 1), 9});
  parts.push_back({fmt::format("grad {:.2f}", r.gradient_norm), 7});
  if (r.scale != 1) parts.push_back({fmt::format("scale {:g}", r.scale), 6});
  if (r.skipped > 0) parts.push_back({fmt::format("skipped {}", r.skipped), 5});
  parts.push_back({fmt::format("{:.0f} tok/s", r.tokens_per_second), 4});
  if (goal.full_speed > 0) {
    parts.push_back({fmt::format("{:.0f}%{}", 100 * r.tokens_per_second / goal.full_speed,
                                 full ? " of peak" : ""),
                     6});
  }
  parts.push_back({bytes_text(r.memory), 8});
  return parts;
}

std::string joined(const std::vector<Part>& parts, const char* gap) {
  std::string line;
  for (const Part& part : parts) line += (line.empty() ? "" : gap) + part.text;
  return line;
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

std::string plain_line(const Record& record, const Goal& goal) {
  return joined(parts_of(record, goal, Words::full), "  ");
}

std::string progress_line(const Record& record, const Goal& goal, int width) {
  const auto limit = static_cast<size_t>(std::max(width - 1, 0));
  for (const auto& [words, gap] : {std::pair(Words::full, "  "), std::pair(Words::few, " ")}) {
    std::vector<Part> parts = parts_of(record, goal, words);
    if (record.step > 0) {
      const double left = record.seconds / static_cast<double>(record.step) *
                          static_cast<double>(goal.steps - record.step);
      parts.push_back({time_text(left) + (words == Words::full ? " left" : ""), 2});
    }
    while (words == Words::few && parts.size() > 1 && joined(parts, gap).size() > limit) {
      parts.erase(std::max_element(parts.begin(), parts.end(),
                                   [](const Part& a, const Part& b) { return a.rank < b.rank; }));
    }
    if (const std::string line = joined(parts, gap); line.size() <= limit) return line;
  }
  return parts_of(record, goal, Words::few)[0].text.substr(0, limit);
}

Progress::Progress(Mode mode, int64_t steps, int64_t log_every)
    : mode_(mode),
      goal_{.steps = steps},
      log_every_(log_every),
      terminal_(::isatty(STDOUT_FILENO) != 0) {}

void Progress::step(const Record& record) {
  const bool due = record.step % log_every_ == 0 || record.step == 1 ||
                   record.step == goal_.steps || record.validation_loss;
  if (mode_ == Mode::quiet) return;
  if (mode_ == Mode::json) {
    if (due) fmt::print("{}\n", to_json(record));
  } else if (terminal_) {
    Record shown = record;
    if (record.validation_loss) validation_loss_ = record.validation_loss;
    shown.validation_loss = validation_loss_;
    fmt::print("\r{}\x1b[K", progress_line(shown, goal_, terminal_width()));
    line_open_ = true;
    // Lines with a validation loss stay, as a history of the run.
    if (record.validation_loss) finish();
  } else if (due) {
    fmt::print("{}\n", plain_line(record, goal_));
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
