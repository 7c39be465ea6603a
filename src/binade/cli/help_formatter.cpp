#include "binade/cli/help_formatter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>

#include "binade/base/terminal.h"

namespace binade::cli {
namespace {

constexpr size_t margin = 2;   // before the names of options and commands
constexpr size_t narrow = 72;  // below it descriptions stand under names instead of beside them
constexpr size_t least_width = 40;  // narrower terminals wrap lines themselves

size_t help_width() {
  if (!terminal::is_terminal(stdout)) return std::numeric_limits<size_t>::max();
  return std::max(static_cast<size_t>(std::max(terminal::width(stdout), 1)), least_width);
}

// How much of a text stands on a line of so many columns; the space after it is not part of it.
size_t length_of_line(std::string_view text, size_t columns) {
  const size_t line_break = text.find('\n');
  if (std::min(line_break, text.size()) <= columns) return std::min(line_break, text.size());
  const size_t space = text.rfind(' ', columns);
  if (space != std::string_view::npos && space > 0) return space;
  const size_t mark = text.substr(0, columns).find_last_of("|,");
  return mark != std::string_view::npos ? mark + 1 : columns;
}

}  // namespace

std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string lines;
  std::string_view rest = text;
  const size_t columns = std::max<size_t>(width, indent + 1) - indent;
  for (bool first = true; !rest.empty(); first = false) {
    if (!first) lines += "\n" + std::string(indent, ' ');
    const size_t length = length_of_line(rest, columns);
    lines += rest.substr(0, length);
    rest.remove_prefix(length);
    if (rest.starts_with(' ') || rest.starts_with('\n')) rest.remove_prefix(1);
  }
  return lines;
}

HelpFormatter::HelpFormatter() : width_(help_width()) {
  if (width_ < narrow) column_width(3 * margin);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrapped(app->get_description(), 0, width_) + "\n";
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = Formatter::make_usage(app, std::move(name));
  usage.erase(usage.find_last_not_of('\n') + 1);
  return wrapped(usage, margin, width_) + "\n";
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  const std::string footer = app->get_footer();
  return footer.empty() ? "" : "\n" + wrapped(footer, 0, width_) + "\n";
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(make_option_name(option, is_positional) + make_option_opts(option),
               make_option_desc(option));
}

// CLI11 has the options that go with one, or do not, in sets of pointers: by name here, since
// addresses change from run to run.
std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  std::string text = Formatter::make_option_opts(option);
  if (!option->get_option_text().empty()) return text;
  text.resize(std::min({text.size(), text.find(" Needs:"), text.find(" Excludes:")}));
  const auto append = [&](const char* label, const std::set<CLI::Option*>& others) {
    std::set<std::string> names;
    for (const CLI::Option* other : others) names.insert(other->get_name());
    if (!names.empty()) text += fmt::format(" {}: {}", label, fmt::join(names, " "));
  };
  append("Needs", option->get_needs());
  append("Excludes", option->get_excludes());
  return text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_display_name(true), command->get_description());
}

std::string HelpFormatter::entry(const std::string& name, const std::string& description) const {
  const size_t column = get_column_width();
  std::string text = std::string(margin, ' ') + wrapped(name, column, width_);
  const size_t last_line = text.size() - (text.rfind('\n') + 1);
  if (!description.empty()) {
    text +=
        last_line < column ? std::string(column - last_line, ' ') : "\n" + std::string(column, ' ');
    text += wrapped(description, column, width_);
  }
  return text + "\n";
}

}  // namespace binade::cli
