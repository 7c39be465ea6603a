#include "binade/train/report/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "binade/train/report/html_page.h"
#include "binade/train/watch/trainer_watch.h"

namespace binade::train {
namespace {

// More than a run writes (lab/doctor.cpp): a file may come from someone else.
constexpr size_t max_verdicts = 40;

// "12" of "doctor, step 12: text"; empty for a line that begins no entry.
std::string_view step_of_entry(std::string_view line) {
  for (const std::string_view start : {"doctor, step ", "watch, step "}) {
    if (!line.starts_with(start)) continue;
    line.remove_prefix(start.size());
    const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
    if (digits > 0 && line.substr(digits).starts_with(": ")) return line.substr(0, digits);
  }
  return {};
}

// Up to the first of these characters.
std::string until(std::string_view text, const char* ends) {
  return std::string(text.substr(0, text.find_first_of(ends)));
}

std::string verdict_name(std::string_view entry) {
  constexpr std::string_view label = "verdict: ";
  if (const size_t at = entry.find(label); at != std::string_view::npos)
    return until(entry.substr(at + label.size()), ";\n");
  return until(entry.substr(entry.find(": ") + 2), ":;\n");
}

struct Target {
  const char* id;
  const char* name;
};

// The chart that shows it.
Target chart_of(const std::string& verdict, bool has_scale) {
  const auto is = [&](Cause cause) { return verdict == name(cause); };
  if (is(Cause::no_gradient) || is(Cause::small_gradient))
    return {gradient_chart_id, "gradient norm"};
  if (is(Cause::stalled)) return {rate_chart_id, "learning rate"};
  if (has_scale && (verdict == "loss scale" || verdict == "underflow" || verdict == "range"))
    return {scale_chart_id, "loss scale"};
  return {loss_chart_id, "loss"};
}

std::string failure_of(const RunSummary& run) {
  RunWatch watch({.vocabulary = run.config.model.vocab});
  LossHistory losses;
  for (const Record& record : run.records) {
    losses.add(record);
    if (record.step > 0) watch.add(step_facts(record));
  }
  return failure_text(watch, losses);
}

}  // namespace

std::vector<DoctorEntry> read_verdicts(std::string_view text) {
  std::vector<DoctorEntry> verdicts;
  while (!text.empty() && verdicts.size() <= max_verdicts) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const std::string_view step = step_of_entry(line); !step.empty())
      verdicts.push_back({.step = std::string(step)});
    if (!verdicts.empty()) verdicts.back().text += std::string(line) + "\n";
  }
  if (verdicts.size() > max_verdicts) verdicts.pop_back();
  for (DoctorEntry& one : verdicts) one.name = verdict_name(one.text);
  return verdicts;
}

std::string verdict_section(const RunSummary& run) {
  const std::string failure = failure_of(run);
  const std::vector<DoctorEntry> verdicts = read_verdicts(run.diagnoses);
  if (failure.empty() && verdicts.empty()) return "";
  // A healthy run may have an unusual batch or two.
  std::string html = fmt::format("<h2 id=\"verdicts\">{}</h2>\n",
                                 failure.empty() ? "What was noticed" : "What went wrong");
  if (!failure.empty())
    html += fmt::format("<p class=\"conclusion\">The run has failed: {}.</p>\n", escaped(failure));
  const bool has_scale = run.config.precision.matmul == Precision::fp16;
  for (const DoctorEntry& one : verdicts) {
    const Target chart = chart_of(one.name, has_scale);
    html += fmt::format(
        "<details open><summary>Step {}: {}</summary>\n<pre>{}</pre>\n<p>Chart: <a "
        "href=\"#{}\">{}</a></p></details>\n",
        escaped(one.step), escaped(one.name), escaped(one.text), chart.id, chart.name);
  }
  return html;
}

}  // namespace binade::train
