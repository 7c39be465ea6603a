#include "binade/train/watch/weight_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/create.h"

namespace binade::train {
namespace {

// Enough to tell a tenth from all, few enough to cost nothing beside a step.
constexpr int64_t sampled_elements = 32;
// Initial sizes differ by the root of a width; gains of norms are 1 where weights are 0.02.
constexpr double standing_out = 100;
// A healthy parameter grows by less while another does not.
constexpr double grown_apart = 10;
// Rows of an embedding whose tokens do not occur do not change, and most sampled weights of a model
// are not among them.
constexpr double least_changed = 0.1;
constexpr int64_t least_updates = 10;
// Of the size of the median weight: fine-tuning moves weights by a thousandth and more.
constexpr double least_reach = 5e-5;

double rms(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

// The name with the largest value, if that is `ratio` times the median of the others.
std::string outlier(std::vector<std::pair<double, std::string>> values, double ratio) {
  std::erase_if(values, [](const auto& one) { return !(one.first > 0); });
  if (values.size() < 3) return "";
  std::sort(values.begin(), values.end());
  const double middle = values[(values.size() - 1) / 2].first;
  return values.back().first > ratio * middle ? values.back().second : "";
}

}  // namespace

WeightSample sample_weights(optim::Optimizer& optimizer,
                            const std::vector<std::pair<std::string, Tensor>>& parameters) {
  const NoGrad no_grad;
  WeightSample sample;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad()) continue;
    const Tensor weights = optimizer.master_of(parameter);
    const int64_t size = weights.numel();
    if (size == 0 || !weights.is_dense()) continue;
    const int64_t count = std::min(size, sampled_elements), stride = size / count;
    sample.parameters.push_back(
        {name, to_vector(weights.strided({count}, {stride}, weights.offset()))});
  }
  return sample;
}

std::string largest_parameter(const WeightSample& sample) {
  std::vector<std::pair<double, std::string>> sizes;
  for (const WeightSample::Entry& one : sample.parameters)
    sizes.emplace_back(rms(one.values), one.name);
  return outlier(std::move(sizes), standing_out);
}

std::string most_grown_parameter(const WeightSample& before, const WeightSample& now) {
  std::vector<std::pair<double, std::string>> growths;
  for (size_t i = 0; i < std::min(before.parameters.size(), now.parameters.size()); ++i) {
    const double was = rms(before.parameters[i].values);
    if (was > 0) growths.emplace_back(rms(now.parameters[i].values) / was, now.parameters[i].name);
  }
  return outlier(std::move(growths), grown_apart);
}

std::optional<Alarm> check_updates(const WeightSample& before, const WeightSample& now,
                                   int64_t step, int64_t updates, double lr) {
  int64_t all = 0, changed = 0;
  for (size_t i = 0; i < std::min(before.parameters.size(), now.parameters.size()); ++i) {
    const std::vector<double>&was = before.parameters[i].values, &is = now.parameters[i].values;
    for (size_t k = 0; k < std::min(was.size(), is.size()); ++k) {
      if (was[k] == 0) continue;  // as biases are, which any update changes
      ++all;
      changed += was[k] == is[k] ? 0 : 1;
    }
  }
  if (updates < least_updates || all == 0 ||
      static_cast<double>(changed) >= least_changed * static_cast<double>(all))
    return {};
  return Alarm{.cause = Cause::stalled,
               .step = step,
               .finding = fmt::format("{} of {} sampled weights have changed in {} updates: the "
                                      "others' were below half a unit in the last place",
                                      changed, all, updates),
               .advice = fmt::format("raise --lr (now {:.3g}), or keep f32 master weights", lr)};
}

std::optional<Alarm> check_learning_rate(const WeightSample& start, int64_t step, double lr,
                                         int64_t steps) {
  std::vector<double> sizes;
  for (const WeightSample::Entry& one : start.parameters) {
    for (const double value : one.values) {
      if (value != 0) sizes.push_back(std::abs(value));
    }
  }
  if (sizes.empty()) return {};
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  const double reach = lr * static_cast<double>(steps) / *middle;
  if (reach >= least_reach) return {};
  return Alarm{
      .cause = Cause::stalled,
      .step = step,
      .finding = fmt::format("all {} updates together change a weight of median size by at "
                             "most {:.2g} of it",
                             steps, reach),
      .advice = fmt::format("raise --lr (now at most {:.3g})", lr)};
}

}  // namespace binade::train
