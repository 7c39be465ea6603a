#include "binade/train/report/report.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/io/file.h"
#include "binade/train/progress.h"
#include "binade/train/report/chart.h"
#include "binade/train/report/html_page.h"

namespace binade::train {
namespace {

template <class F>
Series series(std::string name, const std::vector<Record>& records, F&& value) {
  Series result{std::move(name), {}};
  for (const Record& record : records) {
    if (record.step > 0)
      result.points.emplace_back(static_cast<double>(record.step), value(record));
  }
  return result;
}

Series validation_series(const std::vector<Record>& records) {
  Series result{"validation", {}};
  for (const Record& record : records) {
    if (record.validation_loss)
      result.points.emplace_back(static_cast<double>(record.step), *record.validation_loss);
  }
  return result;
}

std::string tiles(const RunSummary& run) {
  if (run.records.empty()) return "";
  const Record& last = run.records.back();
  const Series validation = validation_series(run.records);
  const auto tokens = static_cast<double>(last.step * run.config.accumulate * run.config.batch *
                                          run.config.context);
  std::string html = "<dl>\n" +
                     tile("Steps", fmt::format("{} of {}", last.step, run.config.steps)) +
                     tile("Training loss", fmt::format("{:.4f}", last.loss));
  if (!validation.points.empty()) {
    html += tile("Validation loss", fmt::format("{:.4f}", validation.points.back().second));
    html += tile("Validation loss at the start",
                 fmt::format("{:.4f}", validation.points.front().second));
  }
  const double speed = last.seconds > 0 ? tokens / last.seconds : 0;
  html += tile("Time", time_text(last.seconds)) +
          tile("Tokens per second", fmt::format("{:.0f}", speed));
  if (run.full_speed > 0)
    html += tile("Share of peak", fmt::format("{:.0f}%", 100 * speed / run.full_speed));
  return html + tile("Peak memory", bytes_text(last.memory)) +
         tile("Skipped steps", fmt::format("{}", last.skipped)) + "</dl>\n";
}

std::string charts(const RunSummary& run) {
  const std::vector<Record>& r = run.records;
  std::string html = line_chart(
      {"Loss", "step", "nats per token"},
      {series("training", r, [](const Record& x) { return x.loss; }), validation_series(r)});
  html += line_chart({"Gradient norm, before clipping", "step", "norm"},
                     {series("gradient norm", r, [](const Record& x) { return x.gradient_norm; })});
  html += line_chart({"Learning rate", "step", "learning rate"},
                     {series("learning rate", r, [](const Record& x) { return x.lr; })});
  if (run.config.precision == Precision::fp16) {
    html +=
        line_chart({"Loss scale", "step", "log2 of the scale"},
                   {series("loss scale", r, [](const Record& x) { return std::log2(x.scale); })});
  }
  html +=
      line_chart({"Throughput", "step", "tokens per second"},
                 {series("throughput", r, [](const Record& x) { return x.tokens_per_second; })});
  std::vector<Bar> bars;
  for (int i = 0; i < memory::category_count; ++i) {
    const int64_t bytes = run.memory.at_peak[static_cast<size_t>(i)];
    bars.push_back({std::string(memory::name(static_cast<memory::Category>(i))),
                    static_cast<double>(bytes), bytes_text(bytes)});
  }
  return html + bar_chart("Memory at its peak, by what it is for", bars);
}

}  // namespace

std::string report_html(const RunSummary& run) {
  const Config& c = run.config;
  const std::string title =
      fmt::format("{} in {}, {} parameters", c.model == ModelFamily::llama ? "Llama" : "GPT-2",
                  name(c.precision), run.parameters);
  std::string html = fmt::format(
      "<p>{} layers, width {}, {} heads, context {}; trained on {} with batches of {} "
      "x {} sequences.</p>\n",
      c.layers, c.width, c.heads, c.context, escaped(c.data), c.accumulate, c.batch);
  html += tiles(run) + "<main>\n" + charts(run) + "</main>\n";
  if (!run.sample.empty())
    html += fmt::format("<h2>A sample of its text</h2>\n<pre>{}</pre>\n", escaped(run.sample));
  html += fmt::format("<h2>Configuration</h2>\n<pre>{}</pre>\n", escaped(to_toml(c)));
  return page(title, html);
}

void write_report(const RunSummary& run, const std::filesystem::path& path) {
  io::AtomicFile file(path, "report");
  file.append(report_html(run));
  file.commit();
}

}  // namespace binade::train
