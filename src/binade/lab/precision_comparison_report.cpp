#include "binade/lab/precision_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/text.h"
#include "binade/lab/experiment_report.h"
#include "binade/train/config/component_options.h"
#include "binade/train/report/chart.h"
#include "binade/train/report/html_page.h"
#include "binade/train/run/progress.h"

// The table and the HTML page of a comparison.
namespace binade::lab {
namespace {

using memory::Category;

// Without these the table fits a phone; the page shows memory by category in a chart.
const std::vector<std::string> detail = {"parameters",  "gradients", "optimizer",
                                         "activations", "skipped",   "scale"};
const std::vector<std::string> header = {
    "precision",  "loss",      "difference", "flushed",     "tokens/s", "at equal loss", "peak",
    "parameters", "gradients", "optimizer",  "activations", "skipped",  "scale"};

std::string difference(const Comparison& comparison, const ComparedRun& run) {
  const double base = comparison.runs.front().loss;
  if (&run == &comparison.runs.front()) return "-";
  if (!std::isfinite(run.loss)) return "diverged";
  return signed_percent(run.loss / base - 1) + (comparison.is_outside_noise(run) ? " *" : "");
}

std::string equal_loss_text(const Comparison& comparison, const ComparedRun& run) {
  if (&run == &comparison.runs.front()) return "-";
  const auto speed = comparison.equal_loss_speed(run);
  return speed ? fmt::format("{:.2f}x ({:.2f}-{:.2f})", speed->ratio, speed->low, speed->high)
               : "n/a";
}

std::vector<std::vector<std::string>> table_rows(const Comparison& comparison) {
  std::vector<std::vector<std::string>> result;
  for (const ComparedRun& run : comparison.runs) {
    const auto bytes = [&run](Category category) {
      return train::bytes_text(run.memory.at_peak[static_cast<size_t>(category)]);
    };
    result.push_back({run.precision, fmt::format("{:.4f}", run.loss), difference(comparison, run),
                      fmt::format("{:.1f}%", 100 * comparison.flushed_gradients(run)),
                      grouped(std::llround(run.tokens_per_second)),
                      equal_loss_text(comparison, run), train::bytes_text(run.memory.peak),
                      bytes(Category::parameters), bytes(Category::gradients),
                      bytes(Category::optimizer), bytes(Category::activations),
                      fmt::format("{}", run.skipped),
                      run.precision.starts_with("fp16") ? fmt::format("{:g}", run.scale) : "-"});
  }
  return result;
}

// The column_notes whose names do not say what they are.
constexpr const char* column_notes =
    " Flushed: gradients of linear layers that are 0 at the last step and are not in the first "
    "precision. At equal loss: speed to the same training loss, with the range that seeds alone "
    "have.";

std::string noise_text(const Comparison& comparison) {
  const std::string& base = comparison.runs.front().precision;
  const auto noise = comparison.seed_noise();
  if (!noise)
    return fmt::format("Differences are relative to {}. The seed noise was not measured (--seeds).",
                       base);
  std::string text = fmt::format(
      "Differences are relative to {}, whose loss varies by {:.2f}% between seeds ({} runs): "
      "smaller differences are noise.",
      base, 100 * *noise / comparison.runs.front().loss, comparison.seed_losses.size());
  if (std::any_of(comparison.runs.begin(), comparison.runs.end(),
                  [&](const ComparedRun& run) { return comparison.is_outside_noise(run); }))
    text += " An asterisk marks larger ones.";
  return text + column_notes;
}

// The losses of a run by step: those of training, smoothed, or those of validation.
train::Series training_losses(const ComparedRun& run) {
  train::Series series{run.precision, {}, train::format_style(run.precision)};
  for (const train::Record& record : run.records)
    series.points.emplace_back(static_cast<double>(record.step), record.loss);
  return train::smoothed(series, std::clamp<size_t>(series.points.size() / 50, 1, 50));
}

train::Series validation_losses(const ComparedRun& run) {
  train::Series series{run.precision, {}, train::format_style(run.precision)};
  series.style.markers = true;
  for (const train::Record& record : run.records) {
    if (record.validation_loss)
      series.points.emplace_back(static_cast<double>(record.step), *record.validation_loss);
  }
  return series;
}

using Losses = train::Series (*)(const ComparedRun& run);

std::string losses_chart(const std::string& title, const Comparison& comparison, Losses losses) {
  std::vector<train::Series> series;
  for (const ComparedRun& run : comparison.runs) series.push_back(losses(run));
  return train::line_chart({title, "step", train::loss_unit(comparison.config)}, series);
}

// Differences of losses by step. All runs see the same batches, so they vary less than the losses.
std::string difference_chart(const std::string& title, const Comparison& comparison, Losses losses,
                             std::optional<double> noise) {
  const train::Series base = losses(comparison.runs.front());
  if (base.points.empty()) return "";
  std::vector<train::Series> series;
  std::vector<std::pair<double, double>> all;
  for (const ComparedRun& run : comparison.runs) {
    train::Series one = losses(run);
    for (size_t i = 0; i < one.points.size(); ++i) one.points[i].second -= base.points[i].second;
    all.insert(all.end(), one.points.begin(), one.points.end());
    series.push_back(std::move(one));
  }
  train::ChartOptions options{title, "step", train::loss_unit(comparison.config),
                              train::robust_limit(all)};
  if (noise) {
    const double first = base.points.front().first, last = base.points.back().first;
    // The band is shown in full.
    options.y_max = std::max(options.y_max, 1.2 * *noise);
    options.band = {"seed noise at the end", {{first, -*noise, *noise}, {last, -*noise, *noise}}};
  }
  return train::line_chart(options, series);
}

std::string memory_chart(const Comparison& comparison) {
  std::vector<std::string> categories;
  for (int i = 0; i < memory::category_count; ++i)
    categories.emplace_back(memory::name(static_cast<Category>(i)));
  std::vector<train::StackedBar> bars;
  for (const ComparedRun& run : comparison.runs) {
    bars.push_back({run.precision, {}, train::bytes_text(run.memory.peak)});
    for (const int64_t bytes : run.memory.at_peak)
      bars.back().parts.push_back(static_cast<double>(bytes));
  }
  return train::stacked_bar_chart("Memory at its peak, by category", categories, bars);
}

std::string speed_chart(const Comparison& comparison) {
  std::vector<train::Bar> bars;
  for (const ComparedRun& run : comparison.runs)
    bars.push_back({run.precision, run.tokens_per_second,
                    grouped(std::llround(run.tokens_per_second)),
                    train::format_style(run.precision)});
  return train::bar_chart("Tokens per second", bars);
}

// The range of a precision's format; FP8 has none of its own, since it is scaled by tensor.
std::optional<RangeBar> range_of(std::string precision) {
  if (precision == "tf32") precision = "f32";  // the same exponents
  for (const RangeBar& range : format_ranges()) {
    const bool matches =
        train::format_style(precision).color == train::format_style(range.name).color;
    if (matches && !precision.starts_with("fp8")) return range;
  }
  return {};
}

// Three figures over one axis, a row per precision.
std::string exponent_charts(const Comparison& comparison) {
  using Member = ExponentHistogram ComparedRun::*;
  constexpr std::pair<const char*, Member> tensors[] = {
      {"Weights", &ComparedRun::weights},
      {"Activations", &ComparedRun::activations},
      {"Gradients, with the loss scale", &ComparedRun::gradients}};
  std::vector<const ExponentHistogram*> all;
  for (const auto& [title, member] : tensors) {
    for (const ComparedRun& run : comparison.runs) all.push_back(&(run.*member));
  }
  const ExponentAxis axis = ExponentAxis::around(all);
  std::string html;
  for (const auto& [title, member] : tensors) {
    std::vector<HistogramRow> rows;
    for (const ComparedRun& run : comparison.runs)
      rows.push_back({run.precision,
                      &(run.*member),
                      {.color = train::format_style(run.precision).color},
                      range_of(run.precision)});
    html += histogram_chart(title, rows, axis);
  }
  return html;
}

std::string results(const Comparison& comparison) {
  train::Table table{.header = header, .rows = table_rows(comparison), .detail = detail};
  for (std::vector<std::string>& row : table.rows)
    row[0] = train::swatch(train::format_style(row[0])) + train::escaped(row[0]);
  return train::to_html(table) + fmt::format("<p>{}</p>\n", train::escaped(noise_text(comparison)));
}

}  // namespace

std::string compare_text(const Comparison& comparison) {
  ExperimentReport report;
  report.add_table(header, table_rows(comparison));
  report.add_paragraph(noise_text(comparison));
  return report.text();
}

std::string compare_html(const Comparison& comparison) {
  const train::Config& c = comparison.config;
  const std::string& base = comparison.runs.front().precision;
  std::string body = fmt::format(
      "<p>All runs start from the same weights and see the same batches: {} steps of {} x {} "
      "sequences of {} tokens from {}.</p>\n",
      c.train.steps, c.train.accumulate, c.train.batch, c.model.context,
      train::escaped(c.data.source));
  body += results(comparison) + "<main>\n";
  body += losses_chart("Validation loss", comparison, validation_losses);
  body += difference_chart("Validation loss minus that of " + base, comparison, validation_losses,
                           comparison.seed_noise());
  body += losses_chart("Training loss, smoothed", comparison, training_losses);
  body += difference_chart("Training loss minus that of " + base, comparison, training_losses, {});
  body += speed_chart(comparison) + memory_chart(comparison);
  body +=
      "</main>\n<h2>Fraction of values by exponent, at the last step</h2>\n<p>Shaded: the "
      "range of the precision's format. FP8 is scaled by tensor and has no range of its "
      "own.</p>\n<main>\n";
  return train::page(
      fmt::format("{} layer{} of width {} in {} precisions", c.model.layers,
                  c.model.layers == 1 ? "" : "s", c.model.width, comparison.runs.size()),
      body + exponent_charts(comparison) + "</main>\n");
}

}  // namespace binade::lab
