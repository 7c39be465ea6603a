#include "binade/lab/equal_loss.h"

#include <algorithm>
#include <cmath>

#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

// Curves of fewer steps say nothing.
constexpr size_t shortest = 20;
// The first quarter, in which losses fall fast by themselves, is left out.
constexpr double begin_fraction = 0.25;
constexpr double largest_ratio = 4;

// The curve at a step between two others, counted from 0.
double value_at(const std::vector<double>& curve, double step) {
  const auto below = static_cast<size_t>(step);
  if (below + 1 >= curve.size()) return curve.back();
  const double part = step - static_cast<double>(below);
  return (1 - part) * curve[below] + part * curve[below + 1];
}

// The mean of run minus base stretched by `ratio`, over the steps that both have.
double mean_difference(const std::vector<double>& base, const std::vector<double>& run,
                       double ratio) {
  const auto count = static_cast<double>(std::min(base.size(), run.size()));
  const double end = std::min(count - 1, ratio * (count - 1));
  double sum = 0;
  int64_t steps = 0;
  for (double step = std::ceil(begin_fraction * end); step <= end; ++step, ++steps)
    sum += value_at(run, step) - value_at(base, step / ratio);
  return steps > 0 ? sum / static_cast<double>(steps) : 0;
}

}  // namespace

std::vector<double> smoothed_losses(std::span<const train::Record> records) {
  train::Series losses;
  for (const train::Record& record : records)
    losses.points.emplace_back(static_cast<double>(record.step), record.loss);
  // A tenth of the steps: noise between batches is larger than what a step gains.
  losses = train::smoothed(losses, std::max<size_t>(losses.points.size() / 20, 1));
  std::vector<double> values;
  for (const auto& point : losses.points) values.push_back(point.second);
  return values;
}

std::optional<double> step_ratio(std::span<const train::Record> base,
                                 std::span<const train::Record> run) {
  if (std::min(base.size(), run.size()) < shortest) return {};
  const std::vector<double> a = smoothed_losses(base), b = smoothed_losses(run);
  const auto is_finite = [](double value) { return std::isfinite(value); };
  if (!std::all_of(a.begin(), a.end(), is_finite) || !std::all_of(b.begin(), b.end(), is_finite))
    return {};
  // The more base is stretched, the higher it lies, since losses fall.
  double low = 1 / largest_ratio, high = largest_ratio;
  if (mean_difference(a, b, low) < 0 || mean_difference(a, b, high) > 0) return {};
  while (high - low > 1e-4) {
    const double middle = (low + high) / 2;
    (mean_difference(a, b, middle) > 0 ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::optional<EqualLossSpeed> speed_at_equal_loss(
    double raw, std::span<const train::Record> base, std::span<const train::Record> run,
    std::span<const std::vector<train::Record>> seeds) {
  const auto ratio = step_ratio(base, run);
  if (!ratio || !(raw > 0)) return {};
  // The largest factor between seeds, in either direction.
  double noise = 1;
  for (const std::vector<train::Record>& seed : seeds) {
    const auto other = step_ratio(base, seed);
    if (!other) return {};
    noise = std::max({noise, *other, 1 / *other});
  }
  const double speed = raw / *ratio;
  return EqualLossSpeed{.ratio = speed, .low = speed / noise, .high = speed * noise};
}

}  // namespace binade::lab
