#include "binade/train/report/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numbers>

#include "binade/amp/recipe/text.h"
#include "binade/base/text.h"
#include "binade/io/file.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/epochs.h"
#include "binade/train/machine.h"
#include "binade/train/report/chart.h"
#include "binade/train/report/html_page.h"
#include "binade/train/report/layer_page.h"
#include "binade/train/report/preference_charts.h"
#include "binade/train/report/run_comparison.h"
#include "binade/train/report/verdicts.h"
#include "binade/train/run/progress.h"
#include "binade/version.h"

namespace binade::train {
namespace {

constexpr const char* layer_page_file = "layers.html";
// Seconds after which the page of a running run is loaded again.
constexpr int refresh_interval = 30;
constexpr const char* baselines_page_file = "baselines.html";

template <class F>
Series series(std::string name, const RunSummary& run, F&& value) {
  Series result{std::move(name), {}, format_style(train::name(run.config.precision.matmul))};
  for (const Record& record : run.records) {
    if (record.step > 0)
      result.points.emplace_back(static_cast<double>(record.step), value(record));
  }
  return result;
}

Series validation_series(const RunSummary& run) {
  Series result{"validation", {}, {.color = Style::ink, .markers = true}};
  for (const Record& record : run.records) {
    if (record.validation_loss)
      result.points.emplace_back(static_cast<double>(record.step), *record.validation_loss);
  }
  return result;
}

// The smallest loss; one that is not a number is larger than any.
const std::pair<double, double>& best_of(const Series& validation) {
  return *std::min_element(
      validation.points.begin(), validation.points.end(), [](const auto& a, const auto& b) {
        return a.second < b.second || (std::isnan(b.second) && !std::isnan(a.second));
      });
}

std::string validation_tiles(const RunSummary& run) {
  const Series validation = validation_series(run);
  if (validation.points.empty()) return "";
  const auto& best = best_of(validation);
  const double first = validation.points.front().second, last = validation.points.back().second;
  std::string html = tile("Validation loss", fmt::format("{:.4f}", last),
                          validation.points.size() > 1 ? fmt::format("from {:.4f}", first) : "");
  if (validation.points.size() > 1)
    html += tile("Best validation loss", fmt::format("{:.4f}", best.second),
                 fmt::format("at step {}", grouped(static_cast<int64_t>(best.first))));
  html += preference_tiles(run);
  if (const auto bits = run.bits_per_byte(last))
    html += tile("Bits per byte", fmt::format("{:.3f}", *bits), "of the validation text");
  return html;
}

// Time and traffic of each rank.
std::string rank_table(const RunSummary& run) {
  if (run.ranks.empty()) return "";
  // Ranks may differ by less than a second.
  const auto text = [](double seconds) {
    return seconds < 120 ? fmt::format("{:.1f} s", seconds) : time_text(seconds);
  };
  Table table{.header = {"rank", "computed", "waited", "of its time", "sent"}};
  for (size_t i = 0; i < run.ranks.size(); ++i) {
    const ranks::RankTime& rank = run.ranks[i];
    const double fraction = rank.seconds > 0 ? rank.waited / rank.seconds : 0;
    table.rows.push_back({std::to_string(i), text(rank.seconds - rank.waited), text(rank.waited),
                          fmt::format("{:.1f}%", 100 * fraction),
                          bytes_text(static_cast<int64_t>(rank.sent))});
  }
  return "<h2>Ranks</h2>\n" + to_html(table);
}

std::string name_of(const amp::Recipe& recipe) {
  return recipe.name.empty() ? amp::to_text(recipe) : recipe.name;
}

// The moves of auto_precision.
std::string move_table(const RunSummary& run) {
  if (!run.config.precision.automatic) return "";
  if (run.moves.layers.empty())
    return "<h2>Precision of layers</h2>\n<p>No layer moved: the recipe harmed none.</p>\n";
  Table table{.header = {"step", "layer", "forward", "dgrad", "wgrad", "lost by the run's recipe"}};
  for (const Promotion& move : run.moves.layers) {
    const std::string recipe =
        escaped(name_of(move.moved_to.value_or(run.config.precision.recipe)));
    const auto precision = [&recipe](bool in_bf16) { return in_bf16 ? "bf16" : recipe; };
    table.rows.push_back({std::to_string(move.step), escaped(move.module), precision(move.forward),
                          precision(move.dgrad), precision(move.wgrad),
                          fmt::format("{:.0f}%", 100 * move.harm)});
  }
  return "<h2>Precision of layers</h2>\n" + to_html(table);
}

// A run with auto_precision beside bf16 and plain FP8.
std::string baseline_section(const RunSummary& run) {
  if (!run.config.precision.automatic) return "";
  const std::string heading = "<h2>Against bf16 and plain FP8</h2>\n";
  if (run.baselines.empty())
    return heading + fmt::format(
                         "<p>Not measured. <code>binade train --resume --baselines --out {}</code> "
                         "trains both with the same seed, data and steps.</p>\n",
                         escaped(run.name));
  return heading + baselines_html(run) +
         fmt::format(
             "<p>Same seed, data and steps. Curves: <a href=\"{0}\">{0}</a>. One seed says "
             "nothing about differences as small as those between seeds.</p>\n",
             baselines_page_file);
}

std::string tiles(const RunSummary& run) {
  if (run.records.empty()) return "";
  const Record& last = run.records.back();
  const double speed = run.mean_tokens_per_second();
  std::string html = "<dl>\n" + validation_tiles(run) +
                     tile("Training loss", fmt::format("{:.4f}", last.loss), "at the last step");
  html += tile("Steps", grouped(last.step), fmt::format("of {}", grouped(run.config.train.steps)));
  if (run.epoch_steps > 0)
    html += tile("Epochs", epochs_text(static_cast<double>(last.step) / run.epoch_steps),
                 "passes over the data");
  html += tile("Time", time_text(last.seconds));
  html += tile("Tokens per second", grouped(std::llround(speed)),
               run.full_speed > 0 ? fmt::format("{:.0f}% of peak", 100 * speed / run.full_speed)
                                  : std::string());
  if (last.joules_per_token)
    html += tile("Energy", fmt::format("{:.3g} mJ per token", 1e3 * *last.joules_per_token));
  return html + tile("Peak memory", bytes_text(last.memory)) +
         tile("Skipped steps", grouped(last.skipped)) + "</dl>\n";
}

// Losses by step in the background, their mean over neighboring steps before them.
std::string loss_chart(const RunSummary& run) {
  // Means over about a fiftieth of the steps show a trend.
  const size_t reach = std::clamp<size_t>(run.records.size() / 100, 2, 100);
  Series raw = series("training, each step", run, [](const Record& x) { return x.loss; });
  const Series mean =
      smoothed({fmt::format("mean of {} steps", 2 * reach + 1), raw.points, raw.style}, reach);
  raw.style.faint = true;
  return line_chart(
      {.title = "Loss", .x_label = "step", .y_label = run.loss_unit(), .id = loss_chart_id},
      {raw, mean, validation_series(run)});
}

std::string gradient_norm_chart(const RunSummary& run) {
  const Series norm = series("gradient norm", run, [](const Record& x) { return x.gradient_norm; });
  return line_chart({.title = "Gradient norm, before clipping",
                     .x_label = "step",
                     .y_label = "norm",
                     .y_max = robust_limit(norm.points),
                     .id = gradient_chart_id},
                    {norm});
}

std::string memory_chart(const RunSummary& run) {
  std::vector<Bar> bars;
  for (int i = 0; i < memory::category_count; ++i) {
    const int64_t bytes = run.memory.at_peak[static_cast<size_t>(i)];
    bars.push_back({std::string(memory::name(static_cast<memory::Category>(i))),
                    static_cast<double>(bytes), bytes_text(bytes),
                    format_style(name(run.config.precision.matmul))});
  }
  return bar_chart("Memory at its peak, by category", bars);
}

std::string charts(const RunSummary& run) {
  std::string html = loss_chart(run) + preference_charts(run) + gradient_norm_chart(run);
  html += line_chart({.title = "Learning rate",
                      .x_label = "step",
                      .y_label = "learning rate",
                      .id = rate_chart_id},
                     {series("learning rate", run, [](const Record& x) { return x.lr; })});
  if (run.config.precision.matmul == Precision::fp16) {
    html +=
        line_chart({.title = "Loss scale",
                    .x_label = "step",
                    .y_label = "log2 of the scale",
                    .id = scale_chart_id},
                   {series("loss scale", run, [](const Record& x) { return std::log2(x.scale); })});
  }
  html += line_chart(
      {.title = "Throughput", .x_label = "step", .y_label = "tokens per second", .from_zero = true},
      {series("throughput", run, [](const Record& x) { return x.tokens_per_second; })});
  return html + memory_chart(run) + layer_charts(run.layers);
}

// "Llama" of a model made here; the model_type of one that was loaded.
std::string family_name(const Config& config) {
  const std::string family = model_config(config).family;
  if (!family.empty() && family != "llama" && family != "gpt2") return family;
  return config.model.family == ModelFamily::llama ? "Llama" : "GPT-2";
}

std::string run_title(const RunSummary& run) {
  return fmt::format("{} in {}, {} parameters", family_name(run.config),
                     name(run.config.precision.matmul), grouped(run.parameters));
}

std::string run_facts(const RunSummary& run) {
  return facts(
      {{"Finished", run.origin.date},
       {"Binade", run.origin.version},
       {"on", run.origin.machine},
       {"Command", run.origin.command},
       {"Resumed by", run.origin.resumed_by},
       {"Trained",
        run.trained_parameters == 0 ? "" : parameters_text(run.trained_parameters, run.parameters)},
       {"Memory", run.arrangement ? describe(*run.arrangement, run.config) : ""}});
}

}  // namespace

Provenance provenance(const Config& config, const std::string& command) {
  const std::string own = command_line();
  return {.date = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))),
          .version = version(),
          .command = config.run.resume && !command.empty() ? command : own,
          .resumed_by = config.run.resume && command != own ? own : "",
          .machine = machine_name(device_of(config))};
}

double RunSummary::tokens_at(const Record& record) const {
  return static_cast<double>(record.tokens.value_or(record.step * step_tokens(config)));
}

double RunSummary::mean_tokens_per_second() const {
  if (records.empty() || !(records.back().seconds > 0)) return 0;
  return tokens_at(records.back()) / records.back().seconds;
}

const char* RunSummary::loss_unit() const {
  if (config.objective.has_pairs()) return "nats per pair";
  return bytes_per_token == 1 ? "nats per byte" : "nats per token";
}

std::optional<double> RunSummary::bits_per_byte(double loss) const {
  if (!(bytes_per_token > 0)) return {};
  return loss / std::numbers::ln2 / bytes_per_token;
}

std::string report_html(const RunSummary& run) {
  const Config& c = run.config;
  std::string html = fmt::format(
      "<p>{} layer{}, width {}, {} head{}, context {}; trained on {} with batches of {} x {} "
      "sequences.</p>\n",
      c.model.layers, c.model.layers == 1 ? "" : "s", c.model.width, c.model.heads,
      c.model.heads == 1 ? "" : "s", c.model.context, escaped(c.data.source), c.train.accumulate,
      c.train.batch);
  html += run_facts(run);
  if (run.is_running)
    html += fmt::format("<p>The run is still running; this page loads itself every {} s.</p>\n",
                        refresh_interval);
  html += verdict_section(run) + tiles(run) + "<main>\n" + charts(run) + "</main>\n";
  if (!run.layers.steps.empty())
    html += fmt::format(
        "<p><a href=\"{0}\">{0}</a>: statistics of inputs, weights and gradients over time.</p>\n",
        layer_page_file);
  if (!run.sample.empty())
    html += fmt::format("<h2>A sample of its text</h2>\n<pre>{}</pre>\n", escaped(run.sample));
  html += move_table(run) + baseline_section(run) + rank_table(run);
  html += fmt::format("<details><summary>Configuration</summary>\n<pre>{}</pre></details>\n",
                      escaped(to_toml(c)));
  return page(run_title(run), html, run.is_running ? refresh_interval : 0);
}

void write_report(const RunSummary& run, const io::Path& path) {
  const auto write = [](const io::Path& to, const std::string& html) {
    io::AtomicFile file(to, "report");
    file.append(html);
    file.commit();
  };
  // First, since the report links to them.
  if (!run.layers.steps.empty())
    write(path.beside(layer_page_file),
          layer_page(run.layers, "Linear layers of " + run_title(run), run_facts(run)));
  if (!run.baselines.empty()) write(path.beside(baselines_page_file), baselines_page(run));
  write(path, report_html(run));
}

}  // namespace binade::train
