#include "binade/train/report/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/base/text.h"
#include "binade/train/report/chart.h"
#include "binade/train/report/html_page.h"
#include "binade/train/run/progress.h"

namespace binade::train {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

double tokens_per_step(const RunSummary& run) {
  if (run.records.empty() || run.records.back().step == 0) return 0;
  const Record& last = run.records.back();
  return run.tokens_at(last) / static_cast<double>(last.step);
}

// Whether all runs have steps of the same size; otherwise they are compared by tokens. Batches of
// examples vary in size with the seed.
bool steps_are_alike(const std::vector<RunSummary>& runs) {
  constexpr double tolerance = 0.1;
  return std::all_of(runs.begin(), runs.end(), [&runs](const RunSummary& run) {
    const double size = tokens_per_step(run), first = tokens_per_step(runs[0]);
    return std::abs(size - first) <= tolerance * first;
  });
}

// Whether a token of one run is as much text as a token of another.
bool tokens_are_alike(const std::vector<RunSummary>& runs) {
  return std::all_of(runs.begin(), runs.end(), [&runs](const RunSummary& run) {
    return run.bytes_per_token == runs[0].bytes_per_token &&
           run.config.model.vocab == runs[0].config.model.vocab;
  });
}

bool bytes_are_known(const std::vector<RunSummary>& runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [](const RunSummary& run) { return run.bytes_per_token > 0; });
}

std::string loss_unit(const std::vector<RunSummary>& runs) {
  const std::string first = runs[0].loss_unit();
  return std::all_of(runs.begin(), runs.end(),
                     [&first](const RunSummary& run) { return run.loss_unit() == first; })
             ? first
             : "nats per token";
}

// Losses per token say nothing about runs with different tokenizers.
bool compares_bits(const std::vector<RunSummary>& runs) {
  return !tokens_are_alike(runs) && bytes_are_known(runs);
}

// By precision if each run has its own, otherwise by position.
std::vector<Style> styles(const std::vector<RunSummary>& runs) {
  std::vector<Style> result;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (runs[i].config.precision.matmul == runs[j].config.precision.matmul)
        return std::vector<Style>(runs.size());
    }
    result.push_back(format_style(name(runs[i].config.precision.matmul)));
  }
  return result;
}

struct Plot {
  std::string title;
  std::string unit = {};  // of a loss: as its runs have it
  bool is_loss = false;
  bool from_zero = false;
  bool smooth = false;
  bool robust = false;
};

// One chart with a series per run; records without a value have no point.
template <class F>
std::string chart(const Plot& plot, const std::vector<RunSummary>& runs, F&& value) {
  const bool by_step = steps_are_alike(runs), in_bits = plot.is_loss && compares_bits(runs);
  const std::vector<Style> looks = styles(runs);
  std::vector<Series> all;
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < runs.size(); ++i) {
    Series series{runs[i].name, {}, looks[i]};
    for (const Record& record : runs[i].records) {
      const std::optional<double> y = value(record);
      if (!y) continue;
      series.points.emplace_back(
          by_step ? static_cast<double>(record.step) : runs[i].tokens_at(record),
          in_bits ? *runs[i].bits_per_byte(*y) : *y);
    }
    series.style.markers = plot.is_loss && !plot.smooth;
    points.insert(points.end(), series.points.begin(), series.points.end());
    all.push_back(plot.smooth
                      ? smoothed(series, std::clamp<size_t>(series.points.size() / 100, 2, 100))
                      : series);
  }
  return line_chart(
      {.title = plot.title,
       .x_label = by_step ? "step" : "tokens",
       .y_label = in_bits        ? "bits per byte"
                  : plot.is_loss ? loss_unit(runs)
                                 : plot.unit,
       .y_max = plot.robust ? robust_limit(points) : std::numeric_limits<double>::infinity(),
       .from_zero = plot.from_zero},
      all);
}

// Step 0 is the untrained model, which has nothing but a validation loss.
std::optional<double> when_trained(const Record& record, double value) {
  return record.step > 0 ? std::optional(value) : std::nullopt;
}

std::string charts(const std::vector<RunSummary>& runs) {
  std::string html = chart({.title = "Validation loss", .is_loss = true}, runs,
                           [](const Record& r) { return r.validation_loss; });
  html += chart({.title = "Training loss, smoothed", .is_loss = true, .smooth = true}, runs,
                [](const Record& r) { return when_trained(r, r.loss); });
  html += chart({.title = "Gradient norm, before clipping", .unit = "norm", .robust = true}, runs,
                [](const Record& r) { return when_trained(r, r.gradient_norm); });
  return html + chart({.title = "Throughput", .unit = "tokens per second", .from_zero = true}, runs,
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
    {"precision", [](const RunSummary& r) { return std::string(name(r.config.precision.matmul)); }},
    {"parameters", [](const RunSummary& r) { return grouped(r.parameters); }},
    {"steps", [](const RunSummary& r) { return grouped(r.records.back().step); }},
    {"validation loss",
     [](const RunSummary& r) { return number_or_dash(last_validation(r), "{:.4f}"); }},
    {"bits per byte",
     [](const RunSummary& r) {
       return number_or_dash(r.bits_per_byte(last_validation(r)).value_or(nothing), "{:.3f}");
     }},
    {"training loss",
     [](const RunSummary& r) { return number_or_dash(r.records.back().loss, "{:.4f}"); }},
    {"tokens/s",
     [](const RunSummary& r) {
       const double speed = r.mean_tokens_per_second();
       return speed > 0 ? grouped(std::llround(speed)) : "–";
     }},
    {"peak memory", [](const RunSummary& r) { return bytes_text(r.records.back().memory); }},
    {"skipped", [](const RunSummary& r) { return grouped(r.records.back().skipped); }},
    {"time", [](const RunSummary& r) { return time_text(r.records.back().seconds); }},
};

std::string results(const std::vector<RunSummary>& runs) {
  Table table{.detail = {"parameters", "steps", "training loss", "peak memory", "skipped", "time"}};
  for (const Column& column : columns) table.header.emplace_back(column.name);
  for (const RunSummary& run : runs) {
    if (run.records.empty()) continue;
    table.rows.emplace_back();
    for (const Column& column : columns) table.rows.back().push_back(escaped(column.text(run)));
  }
  return to_html(table);
}

std::string introduction(const std::vector<RunSummary>& runs) {
  if (tokens_are_alike(runs)) return "";
  return bytes_are_known(runs)
             ? "<p>The runs have different tokenizers, so losses are compared in bits per byte of "
               "text.</p>\n"
             : "<p>The runs have different tokens: their losses per token cannot be compared, and "
               "the text behind the tokens is not known.</p>\n";
}

std::vector<RunSummary> with_baselines(const RunSummary& run) {
  std::vector<RunSummary> runs = {run};
  runs[0].name = "fp8, auto-precision";
  runs.insert(runs.end(), run.baselines.begin(), run.baselines.end());
  return runs;
}

// The header, then a row per run; the loss is relative to that of bf16.
std::vector<std::vector<std::string>> baseline_rows(const RunSummary& run) {
  const auto bf16 = std::find_if(
      run.baselines.begin(), run.baselines.end(),
      [](const RunSummary& one) { return one.config.precision.matmul == Precision::bf16; });
  const double reference = bf16 == run.baselines.end() ? nothing : last_validation(*bf16);
  std::vector<std::vector<std::string>> rows = {
      {"run", "validation loss", "to bf16", "steps", "tokens/s", "peak memory"}};
  for (const RunSummary& one : with_baselines(run)) {
    const double loss = last_validation(one), speed = one.mean_tokens_per_second();
    rows.push_back({one.name, std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "not finite",
                    one.config.precision.matmul == Precision::bf16 ? ""
                    : std::isfinite(loss / reference) ? signed_percent(loss / reference - 1)
                                                      : "–",
                    grouped(one.records.back().step),
                    speed > 0 ? grouped(std::llround(speed)) : "–",
                    bytes_text(one.records.back().memory)});
  }
  return rows;
}

}  // namespace

std::string baselines_html(const RunSummary& run) {
  if (run.baselines.empty() || run.records.empty()) return "";
  std::vector<std::vector<std::string>> rows = baseline_rows(run);
  Table table{.header = rows.front(), .detail = {"steps", "peak memory"}};
  table.rows.assign(rows.begin() + 1, rows.end());
  return to_html(table);
}

std::string baselines_text(const RunSummary& run) {
  if (run.baselines.empty() || run.records.empty()) return "";
  std::string text;
  for (const std::vector<std::string>& row : baseline_rows(run))
    text += fmt::format("{:<21}{:>16}{:>10}{:>9}{:>10}{:>13}\n", row[0], row[1], row[2], row[3],
                        row[4], row[5]);
  return text;
}

std::string baselines_page(const RunSummary& run) { return comparison_html(with_baselines(run)); }

std::string comparison_html(const std::vector<RunSummary>& runs) {
  return page(fmt::format("{} runs", runs.size()),
              introduction(runs) + results(runs) + "<main>\n" + charts(runs) + "</main>\n");
}

}  // namespace binade::train
