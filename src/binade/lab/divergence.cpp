#include "binade/lab/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace binade::lab {
namespace {

// Steps whose median stands for the loss at a time: single spikes vanish in it.
constexpr size_t window = 5;
// A loss this many times above its best, and above it by this much, has left the minimum it was in.
// Noise between batches stays below: it is some percent of the loss.
constexpr double loss_growth = 1.5, loss_rise = 0.5;
// Weights grow by less than 3 times in a healthy run; matmuls of weights that grew by 10 times give
// activations that grew by as much per layer.
constexpr double weight_growth = 10;

double median(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::vector<double> finite(std::span<const StepRecord> history, double StepRecord::*member) {
  std::vector<double> values;
  for (const StepRecord& step : history) {
    if (std::isfinite(step.*member)) values.push_back(step.*member);
  }
  return values;
}

std::string rising_loss(std::span<const StepRecord> history) {
  const std::vector<double> losses = finite(history, &StepRecord::loss);
  if (losses.size() < 2) return "";
  const size_t width = std::min(window, losses.size() / 2);
  double best = INFINITY, last = 0;
  for (size_t i = 0; i + width <= losses.size(); ++i) {
    last = median(std::span(losses).subspan(i, width));
    best = std::min(best, last);
  }
  if (last < loss_growth * best || last < best + loss_rise) return "";
  return fmt::format("the loss rose from {:.3g} to {:.3g} within {} steps", best, losses.back(),
                     history.size());
}

std::string growing_weights(std::span<const StepRecord> history) {
  const std::vector<double> norms = finite(history, &StepRecord::weight_norm);
  const auto known = [](double norm) { return norm > 0; };
  const auto first = std::find_if(norms.begin(), norms.end(), known);
  const auto last = std::find_if(norms.rbegin(), norms.rend(), known);
  if (first == norms.end() || *last < weight_growth * *first) return "";
  return fmt::format("the norm of the weights grew from {:.3g} to {:.3g}", *first, *last);
}

}  // namespace

std::string signs_of_divergence(std::span<const StepRecord> history) {
  const std::string loss = rising_loss(history), weights = growing_weights(history);
  return loss.empty() || weights.empty() ? loss + weights : loss + "; " + weights;
}

}  // namespace binade::lab
