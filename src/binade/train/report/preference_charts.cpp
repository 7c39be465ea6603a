#include "binade/train/report/preference_charts.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/train/report/chart.h"
#include "binade/train/report/html_page.h"

namespace binade::train {
namespace {

using Numbers = std::optional<Preferences> Record::*;

// A number of the pairs by step. Of training, smoothed as the loss is.
template <class F>
Series number_of(const RunSummary& run, std::string name, Numbers numbers, int color, F&& value) {
  const bool is_validation = numbers == &Record::validation_preferences;
  Series result{std::move(name), {}, {.color = color, .markers = is_validation}};
  for (const Record& record : run.records) {
    if (record.*numbers)
      result.points.emplace_back(static_cast<double>(record.step), value(*(record.*numbers)));
  }
  return is_validation ? result
                       : smoothed(result, std::clamp<size_t>(run.records.size() / 100, 2, 100));
}

constexpr int chosen_color = 0, rejected_color = 1, margin_color = 2;

std::string reward_chart(const RunSummary& run) {
  const auto of = [&](const char* name, int color, auto&& value) {
    return number_of(run, name, &Record::preferences, color, value);
  };
  return line_chart(
      {.title = "Rewards, smoothed", .x_label = "step", .y_label = "nats, times beta"},
      {of("chosen", chosen_color, [](const Preferences& x) { return x.chosen_reward; }),
       of("rejected", rejected_color, [](const Preferences& x) { return x.rejected_reward; }),
       of("margin", margin_color, [](const Preferences& x) { return x.margin(); }),
       number_of(run, "margin, validation", &Record::validation_preferences, Style::ink,
                 [](const Preferences& x) { return x.margin(); })});
}

std::string accuracy_chart(const RunSummary& run) {
  const auto accuracy = [](const Preferences& x) { return x.accuracy; };
  return line_chart(
      {.title = "Accuracy: pairs whose chosen answer has the higher reward",
       .x_label = "step",
       .y_label = "fraction of the pairs",
       .from_zero = true},
      {number_of(run, "training, smoothed", &Record::preferences, margin_color, accuracy),
       number_of(run, "validation", &Record::validation_preferences, Style::ink, accuracy)});
}

std::string log_prob_chart(const RunSummary& run) {
  return line_chart({.title = "Log-probabilities of the answers, smoothed",
                     .x_label = "step",
                     .y_label = "nats per answer"},
                    {number_of(run, "chosen", &Record::preferences, chosen_color,
                               [](const Preferences& x) { return x.chosen_log_prob; }),
                     number_of(run, "rejected", &Record::preferences, rejected_color,
                               [](const Preferences& x) { return x.rejected_log_prob; })});
}

bool has_pairs(const RunSummary& run) {
  return std::ranges::any_of(run.records,
                             [](const Record& record) { return record.preferences.has_value(); });
}

}  // namespace

std::string preference_tiles(const RunSummary& run) {
  const auto last = std::find_if(run.records.rbegin(), run.records.rend(), [](const Record& one) {
    return one.validation_preferences.has_value();
  });
  if (last == run.records.rend()) return "";
  const Preferences& numbers = *last->validation_preferences;
  return tile("Validation accuracy", fmt::format("{:.1f}%", 100 * numbers.accuracy),
              "chosen above rejected") +
         tile("Reward margin", fmt::format("{:.3f}", numbers.margin()), "of validation");
}

std::string preference_charts(const RunSummary& run) {
  if (!has_pairs(run)) return "";
  return reward_chart(run) + accuracy_chart(run) + log_prob_chart(run);
}

}  // namespace binade::train
