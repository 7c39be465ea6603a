#include "binade/lab/experiment_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "binade/base/error.h"
#include "binade/base/suggestion.h"
#include "binade/train/report/chart.h"
#include "binade/train/report/html_page.h"

namespace binade::lab {
namespace {

using train::escaped;

constexpr size_t text_width = 96;

// Breaks lines at text_width and starts each with `indent`.
std::string wrapped(const std::string& text, const std::string& indent = "") {
  std::string result, line = indent;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (line.size() > indent.size() && line.size() + 1 + word.size() > text_width) {
      result += line + "\n";
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + word;
    begin = end + 1;
  }
  return result + line + "\n";
}

}  // namespace

void ExperimentReport::add_paragraph(const std::string& text) {
  text_ += wrapped(text) + "\n";
  html_ += fmt::format("<p>{}</p>\n", escaped(text));
}

void ExperimentReport::add_table(const std::vector<std::string>& header,
                                 const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::string& cell : header) widths.push_back(cell.size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const auto add_line = [&](const std::vector<std::string>& row) {
    std::string line = "  ";
    for (size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    text_ += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_line(header);
  train::Table table{.header = header};
  for (const auto& row : rows) {
    add_line(row);
    table.rows.emplace_back();
    for (const std::string& cell : row) table.rows.back().push_back(escaped(cell));
  }
  text_ += "\n";
  html_ += train::to_html(table);
}

std::string ExperimentReport::html() const {
  if (figures_.empty()) return html_;
  return "<div class=\"experiment\"><div>\n" + html_ + "</div><div>\n" + figures_ +
         "</div></div>\n";
}

void ExperimentReport::add_preformatted(const std::string& text) {
  std::string indented = "  " + text;
  for (size_t at = 0; (at = indented.find('\n', at)) != std::string::npos; at += 3)
    indented.insert(at + 1, "  ");
  text_ += indented + "\n\n";
  html_ += fmt::format("<pre>{}</pre>\n", escaped(text));
}

void ExperimentReport::add_conclusion(const std::string& text) {
  text_ += wrapped("Conclusion: " + text, "> ");
  html_ +=
      fmt::format("<p class=\"conclusion\"><strong>Conclusion:</strong> {}</p>\n", escaped(text));
}

const Experiment& find_experiment(std::string_view name) {
  std::vector<std::string> known;
  for (const Experiment& one : experiments()) {
    if (one.name == name) return one;
    known.emplace_back(one.name);
  }
  const std::string likely = likely_name(name, known);
  fail("lab",
       {.argument = "NAME",
        .expected = fmt::format("one of {}, or all", fmt::join(known, ", ")),
        .found = "'" + std::string(name) + "'",
        .hint = likely.empty() ? "'binade lab' lists them" : "did you mean " + likely + "?"});
}

std::string lab_page(const std::vector<CompletedExperiment>& completed) {
  std::string body =
      "<p>Binade computed every number and figure on this page when it wrote the page.</p>\n<nav>";
  for (const CompletedExperiment& one : completed)
    body += fmt::format("<a href=\"#{}\">{}</a> ", one.experiment.name, one.experiment.name);
  body += "</nav>\n";
  for (const CompletedExperiment& one : completed) {
    body += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", one.experiment.name,
                        escaped(std::string(one.experiment.title)), one.report.html());
  }
  return train::page("Mixed precision, shown", body);
}

}  // namespace binade::lab
