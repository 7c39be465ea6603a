#include "binade/train/report/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/train/progress.h"
#include "binade/train/report/chart.h"
#include "binade/train/report/html_page.h"

namespace binade::train {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

double tokens_per_step(const RunSummary& run) {
  return static_cast<double>(run.config.accumulate * run.config.batch * run.config.context);
}

// Whether all runs have steps of the same size; otherwise they are compared by tokens.
bool steps_are_alike(const std::vector<RunSummary>& runs) {
  return std::all_of(runs.begin(), runs.end(), [&runs](const RunSummary& run) {
    return tokens_per_step(run) == tokens_per_step(runs[0]);
  });
}

// One chart with a series per run; records without a value have no point.
template <class F>
std::string chart(const std::string& title, const std::string& unit,
                  const std::vector<RunSummary>& runs, F&& value) {
  const bool by_step = steps_are_alike(runs);
  std::vector<Series> all;
  for (const RunSummary& run : runs) {
    Series series{run.name, {}};
    for (const Record& record : run.records) {
      if (const std::optional<double> y = value(record))
        series.points.emplace_back(
            static_cast<double>(record.step) * (by_step ? 1 : tokens_per_step(run)), *y);
    }
    all.push_back(std::move(series));
  }
  return line_chart({title, by_step ? "step" : "tokens", unit}, all);
}

// Step 0 is the untrained model, which has nothing but a validation loss.
std::optional<double> when_trained(const Record& record, double value) {
  return record.step > 0 ? std::optional(value) : std::nullopt;
}

std::string charts(const std::vector<RunSummary>& runs) {
  std::string html = chart("Validation loss", "nats per token", runs,
                           [](const Record& r) { return r.validation_loss; });
  html += chart("Training loss", "nats per token", runs,
                [](const Record& r) { return when_trained(r, r.loss); });
  html += chart("Gradient norm, before clipping", "norm", runs,
                [](const Record& r) { return when_trained(r, r.gradient_norm); });
  return html + chart("Throughput", "tokens per second", runs,
                      [](const Record& r) { return when_trained(r, r.tokens_per_second); });
}

struct Column {
  const char* name;
  std::string (*text)(const RunSummary& run);
};

std::string number_or_dash(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "–";
}

double last_validation(const RunSummary& run) {
  double result = nothing;
  for (const Record& r : run.records) result = r.validation_loss.value_or(result);
  return result;
}

constexpr Column columns[] = {
    {"run", [](const RunSummary& r) { return r.name; }},
    {"precision", [](const RunSummary& r) { return std::string(name(r.config.precision)); }},
    {"parameters", [](const RunSummary& r) { return fmt::format("{}", r.parameters); }},
    {"steps", [](const RunSummary& r) { return fmt::format("{}", r.records.back().step); }},
    {"validation loss",
     [](const RunSummary& r) { return number_or_dash(last_validation(r), "{:.4f}"); }},
    {"training loss",
     [](const RunSummary& r) { return number_or_dash(r.records.back().loss, "{:.4f}"); }},
    {"tokens/s",
     [](const RunSummary& r) {
       const Record& last = r.records.back();
       return number_or_dash(static_cast<double>(last.step) * tokens_per_step(r) / last.seconds,
                             "{:.0f}");
     }},
    {"peak memory", [](const RunSummary& r) { return bytes_text(r.records.back().memory); }},
    {"skipped", [](const RunSummary& r) { return fmt::format("{}", r.records.back().skipped); }},
    {"time", [](const RunSummary& r) { return time_text(r.records.back().seconds); }},
};

std::string table(const std::vector<RunSummary>& runs) {
  std::string html = "<table>\n<thead><tr>";
  for (const Column& column : columns) html += fmt::format("<th>{}</th>", column.name);
  html += "</tr></thead>\n<tbody>\n";
  for (const RunSummary& run : runs) {
    if (run.records.empty()) continue;
    html += "<tr>";
    for (const Column& column : columns)
      html += fmt::format("<td data-name=\"{}\">{}</td>", column.name, escaped(column.text(run)));
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n";
}

}  // namespace

std::string comparison_html(const std::vector<RunSummary>& runs) {
  return page(fmt::format("{} runs", runs.size()), "<main class=\"two\">\n" + charts(runs) +
                                                       "</main>\n<h2>Results</h2>\n" + table(runs));
}

}  // namespace binade::train
