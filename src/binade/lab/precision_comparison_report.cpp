#include "binade/lab/precision_comparison.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/lab/experiment_report.h"
#include "binade/train/progress.h"
#include "binade/train/report/chart.h"
#include "binade/train/report/html_page.h"

// The table and the HTML page of a comparison.
namespace binade::lab {
namespace {

using memory::Category;

const std::vector<std::string> header = {"precision",   "loss",       "difference", "tokens/s",
                                         "peak",        "parameters", "gradients",  "optimizer",
                                         "activations", "skipped",    "scale"};

std::string difference(const Comparison& comparison, const ComparedRun& run) {
  const double base = comparison.runs.front().loss;
  if (&run == &comparison.runs.front()) return "-";
  return std::isfinite(run.loss) ? fmt::format("{:+.2f}%", 100 * (run.loss / base - 1))
                                 : std::string("diverged");
}

std::vector<std::vector<std::string>> rows(const Comparison& comparison) {
  std::vector<std::vector<std::string>> result;
  for (const ComparedRun& run : comparison.runs) {
    const auto bytes = [&run](Category category) {
      return train::bytes_text(run.memory.at_peak[static_cast<size_t>(category)]);
    };
    result.push_back({run.precision, fmt::format("{:.4f}", run.loss), difference(comparison, run),
                      fmt::format("{:.0f}", run.tokens_per_second),
                      train::bytes_text(run.memory.peak), bytes(Category::parameters),
                      bytes(Category::gradients), bytes(Category::optimizer),
                      bytes(Category::activations), fmt::format("{}", run.skipped),
                      run.precision.starts_with("fp16") ? fmt::format("{:g}", run.scale) : "-"});
  }
  return result;
}

std::string noise_text(const Comparison& comparison) {
  const std::string& base = comparison.runs.front().precision;
  const auto noise = comparison.seed_noise();
  if (!noise)
    return fmt::format("Differences are relative to {}. The seed noise was not measured (--seeds).",
                       base);
  return fmt::format(
      "Differences are relative to {}, whose loss varies by {:.2f}% between seeds ({} runs): "
      "smaller "
      "differences are noise.",
      base, 100 * *noise / comparison.runs.front().loss, comparison.seed_losses.size());
}

std::string losses_chart(const Comparison& comparison) {
  std::vector<train::Series> series;
  for (const ComparedRun& run : comparison.runs) {
    series.push_back({run.precision, {}});
    for (const train::Record& record : run.records)
      series.back().points.emplace_back(static_cast<double>(record.step), record.loss);
  }
  return train::line_chart({"Training loss", "step", "nats per token"}, series);
}

// The difference, averaged over the last steps to smooth the noise between batches. That noise is
// small, because all runs see the same batches.
std::string difference_chart(const Comparison& comparison) {
  constexpr size_t window = 5;
  const std::vector<train::Record>& base = comparison.runs.front().records;
  std::vector<train::Series> series{{comparison.runs.front().precision, {}}};
  for (const ComparedRun& run : comparison.runs) {
    train::Series one{run.precision, {}};
    for (size_t i = 0; i < base.size(); ++i) {
      double sum = 0;
      const size_t first = i + 1 < window ? 0 : i + 1 - window;
      for (size_t j = first; j <= i; ++j) sum += run.records[j].loss - base[j].loss;
      one.points.emplace_back(static_cast<double>(base[i].step),
                              sum / static_cast<double>(i + 1 - first));
    }
    if (&run == &comparison.runs.front()) {
      series.front() = one;  // all zero: the baseline
    } else {
      series.push_back(one);
    }
  }
  return train::line_chart(
      {"Difference from " + comparison.runs.front().precision, "step", "nats per token"}, series);
}

}  // namespace

std::string compare_text(const Comparison& comparison) {
  ExperimentReport report;
  report.add_table(header, rows(comparison));
  report.add_paragraph(noise_text(comparison));
  return report.text();
}

std::string compare_html(const Comparison& comparison) {
  const train::Config& c = comparison.config;
  ExperimentReport table;
  table.add_table(header, rows(comparison));
  table.add_paragraph(noise_text(comparison));
  std::string body = fmt::format(
      "<p>All runs start from the same weights and see the same batches: {} steps of {} x {} "
      "sequences of "
      "{} tokens from {}.</p>\n",
      c.steps, c.accumulate, c.batch, c.context, train::escaped(c.data));
  body += table.html() + "<main>\n" + losses_chart(comparison) + difference_chart(comparison);
  for (const ComparedRun& run : comparison.runs)
    body += histogram_chart(
        run.precision +
            ": fraction of values by exponent at the last step, and the ranges of the formats",
        {run.weights, run.activations, run.gradients});
  return train::page(fmt::format("{} layers of width {} in {} precisions", c.layers, c.width,
                                 comparison.runs.size()),
                     body + "</main>\n");
}

}  // namespace binade::lab
