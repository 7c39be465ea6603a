#include "binade/train/run/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "binade/base/terminal.h"
#include "binade/base/text.h"

namespace binade::train {
namespace {

// Between two drawings of the updating line: more often than the eye follows costs a fast GPU time.
constexpr std::chrono::milliseconds draw_interval(50);

enum class Words : uint8_t { full, few };

// A part of a line, and its rank: if the line is too long, the highest rank is dropped first.
struct Part {
  std::string text;
  int rank;
};

// Ranks of what depends on the kind of a line.
int validation_rank(LineKind kind) { return kind == LineKind::permanent ? 0 : 3; }
int time_rank(LineKind kind) { return kind == LineKind::permanent ? 11 : 2; }

// "accuracy 75%": the share of pairs whose chosen answer has the higher reward.
std::string accuracy_text(const char* of, const Preferences& preferences, Words words) {
  return fmt::format("{}{} {:.0f}%", of, words == Words::full ? "accuracy" : "acc",
                     100 * preferences.accuracy);
}

std::vector<Part> parts_of(const Record& r, const Goal& goal, Words words,
                           LineKind kind = LineKind::updating) {
  const bool full = words == Words::full;
  std::vector<Part> parts;
  parts.push_back({fmt::format("{}{}/{}", full ? "step " : "", r.step, goal.steps), 0});
  if (r.step > 0) parts.push_back({fmt::format("loss {:.4f}", r.loss), 1});
  if (r.preferences) parts.push_back({accuracy_text("", *r.preferences, words), 2});
  if (r.validation_loss)
    parts.push_back({fmt::format("val {:.4f}", *r.validation_loss), validation_rank(kind)});
  if (r.validation_preferences)
    parts.push_back({accuracy_text("val ", *r.validation_preferences, words), 3});
  if (r.step == 0) return parts;
  if (goal.epoch_steps > 0)
    parts.push_back(
        {fmt::format("epoch {:.2f}", static_cast<double>(r.step) / goal.epoch_steps), 12});
  parts.push_back({fmt::format("lr {:.{}e}", r.lr, full ? 2 : 1), 9});
  parts.push_back({fmt::format("grad {:.2f}", r.gradient_norm), 7});
  if (r.scale != 1) parts.push_back({fmt::format("scale {:g}", r.scale), 6});
  if (r.skipped > 0) parts.push_back({fmt::format("skipped {}", r.skipped), 5});
  parts.push_back({grouped(std::llround(r.tokens_per_second)) + " tok/s", 4});
  if (goal.full_speed > 0) {
    parts.push_back({fmt::format("{:.0f}%{}", 100 * r.tokens_per_second / goal.full_speed,
                                 full ? " of peak" : ""),
                     6});
  }
  if (goal.ranks > 1) {
    const double percent = 100 * goal.waiting;
    parts.push_back({full ? fmt::format("{} ranks, {:.0f}% waiting", goal.ranks, percent)
                          : fmt::format("{} ranks wait {:.0f}%", goal.ranks, percent),
                     7});
  }
  parts.push_back({bytes_text(r.memory), 8});
  if (r.joules_per_token)
    parts.push_back({fmt::format("{:.3g} mJ/tok", 1e3 * *r.joules_per_token), 10});
  return parts;
}

std::string joined(const std::vector<Part>& parts, const char* gap) {
  std::string line;
  for (const Part& part : parts) line += (line.empty() ? "" : gap) + part.text;
  return line;
}

}  // namespace

std::string parameters_text(int64_t trained, int64_t all) {
  if (trained == all) return fmt::format("all {} parameters", grouped(all));
  return fmt::format("{} of {} parameters ({:.2g}%)", grouped(trained), grouped(all),
                     100 * static_cast<double>(trained) / static_cast<double>(all));
}

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

std::string progress_line(const Record& record, const Goal& goal, int width, LineKind kind) {
  const auto limit = static_cast<size_t>(std::max(width - 1, 0));
  for (const auto& [words, gap] : {std::pair(Words::full, "  "), std::pair(Words::few, " ")}) {
    std::vector<Part> parts = parts_of(record, goal, words, kind);
    if (record.step > 0 && record.step < goal.steps) {
      const double left = record.seconds / static_cast<double>(record.step) *
                          static_cast<double>(goal.steps - record.step);
      parts.push_back({time_text(left) + (words == Words::full ? " left" : ""), time_rank(kind)});
    }
    while (words == Words::few && parts.size() > 1 && joined(parts, gap).size() > limit) {
      parts.erase(std::max_element(parts.begin(), parts.end(),
                                   [](const Part& a, const Part& b) { return a.rank < b.rank; }));
    }
    if (const std::string line = joined(parts, gap); line.size() <= limit) return line;
  }
  return parts_of(record, goal, Words::few)[0].text.substr(0, limit);
}

std::string two_lines(std::string_view text, int width) {
  const auto limit = static_cast<size_t>(std::max(width - 1, 0));
  if (limit == 0) return {};
  std::string lines[2];
  size_t columns = 0, line = 0;
  bool space = false;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(utf8_length(text, at), 1);
    const std::string_view character = text.substr(at, length);
    at += length;
    if (character == " " || character == "\n" || character == "\t") {
      space = columns > 0;  // not at the start of a line
      continue;
    }
    // Among the characters of three bytes and more are those that take two columns.
    const size_t needed = length < 3 ? 1 : 2;
    if (columns + needed + (space ? 1 : 0) > limit) {
      if (++line == 2) break;
      columns = 0;
      space = false;
    }
    if (space) lines[line] += ' ';
    lines[line] += character;
    columns += needed + (space ? 1 : 0);
    space = false;
  }
  return lines[0] + (lines[1].empty() ? "" : "\n" + lines[1]);
}

Progress::Progress(Mode mode, int64_t steps, int64_t log_every)
    : mode_(mode),
      goal_{.steps = steps},
      log_every_(log_every),
      terminal_(terminal::is_terminal(stdout)),
      color_(terminal::has_color(stdout)) {}

bool Progress::redraws() {
  const auto now = Clock::now();
  if (now - last_draw_ < draw_interval) return false;
  last_draw_ = now;
  return true;
}

void Progress::show(const std::string& line) {
  fmt::print("{}{}{}", terminal::line_start, line, terminal::clear_line);
  line_open_ = true;
}

void Progress::step(const Record& record) {
  const bool due = record.step % log_every_ == 0 || record.step == 1 ||
                   record.step == goal_.steps || record.validation_loss;
  if (mode_ == Mode::quiet) return;
  if (mode_ == Mode::json) {
    if (due) fmt::print("{}\n", to_json(record));
  } else if (terminal_) {
    if (record.validation_loss) validation_loss_ = record.validation_loss;
    if (!record.validation_loss && !redraws()) return;
    Record shown = record;
    shown.validation_loss = validation_loss_;
    const std::string line =
        progress_line(shown, goal_, terminal::width(stdout) - terminal::free_columns,
                      record.validation_loss ? LineKind::permanent : LineKind::updating);
    // Lines with a validation loss stay, as a history of the run.
    if (record.validation_loss) {
      show(terminal::styled(line, terminal::Style::bold, color_));
      fmt::print("\n");
      line_open_ = false;
    } else {
      show(line);
    }
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

void Progress::warn(const std::string& text) {
  finish();
  terminal::print_warning(text);
}

void Progress::sample(const std::string& text) {
  constexpr std::string_view margin = "  ";
  const int width = terminal_ ? terminal::width(stdout) : 80;
  std::string lines = two_lines(text, width - static_cast<int>(margin.size()));
  if (const size_t end = lines.find('\n'); end != std::string::npos) lines.insert(end + 1, margin);
  note(terminal::styled(std::string(margin) + lines, terminal::Style::dim, color_));
}

void Progress::status(const std::string& text) {
  if (mode_ != Mode::normal || !terminal_ || !redraws()) return;
  const auto limit = static_cast<size_t>(std::max(terminal::width(stdout) - 1, 0));
  show(terminal::styled(text.substr(0, limit), terminal::Style::dim, color_));
  std::fflush(stdout);
}

void Progress::finish() {
  if (line_open_) {
    std::fputs(terminal::line_start, stdout);
    std::fputs(terminal::clear_line, stdout);
    std::fflush(stdout);
  }
  line_open_ = false;
}

}  // namespace binade::train
