#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/ops/create/create.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/optim/sgd.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr int steps = 1000;
constexpr double learning_rate = 1e-4;

// The mean of 256 bf16 weights that start at 1 and always have a gradient of 1.
train::Series descent(const std::string& name, const optim::MasterOptions& options,
                      train::Style style) {
  Tensor w = ones({256}, DType::bf16);
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = learning_rate, .master = options});
  train::Series series{name, {{0, 1}}, style};
  for (int i = 1; i <= steps; ++i) {
    sgd.zero_grad();
    sum(w).backward();
    sgd.step();
    if (i % 10 == 0) series.points.emplace_back(i, mean(w, {}, false, DType::f32).item());
  }
  return series;
}

// The largest power of two that can be subtracted from a bf16 weight of 1 without changing it.
double ignored_update() {
  for (int power = -1;; --power) {
    Tensor w = ones({1}, DType::bf16);
    w.set_requires_grad();
    optim::SGD sgd({w}, {.lr = std::ldexp(1.0, power), .master = {.masters = false}});
    sum(w).backward();
    sgd.step();
    if (w.item() == 1) return std::ldexp(1.0, power);
  }
}

}  // namespace

SmallUpdatesResult small_updates_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "256 bf16 weights start at 1, with a gradient of 1 and a learning rate of 1e-4. After 1000 "
      "steps they should be 0.9. An update changes a weight only if it exceeds half the distance "
      "to "
      "the next number, in bf16 about 1/512 of the weight.");
  const train::Series master = descent("f32 master weight", {}, train::format_style("f32")),
                      none = descent("no master weight", {.masters = false},
                                     train::format_style("bf16")),
                      stochastic = descent("no master weight, stochastic rounding",
                                           {.masters = false, .stochastic_rounding = true},
                                           train::format_style("bf16", 1));
  const auto last = [](const train::Series& series) { return series.points.back().second; };
  const SmallUpdatesResult result{.without_master = last(none),
                                  .with_master = last(master),
                                  .stochastic = last(stochastic),
                                  .reference = 1 - steps * learning_rate,
                                  .ignored_update = ignored_update()};
  report.add_table({"weights", "after 1000 steps", "should be"},
                   {{master.name, fmt::format("{:.5f}", result.with_master), "0.90000"},
                    {none.name, fmt::format("{:.5f}", result.without_master), "0.90000"},
                    {stochastic.name, fmt::format("{:.5f}", result.stochastic), "0.90000"}});
  report.add_figure(
      train::line_chart({"Mean weight", "step", "weight"}, {master, none, stochastic}));
  report.add_conclusion(fmt::format(
      "a bf16 weight of 1 ignores updates up to 2^{:.0f}, so without a master weight a thousand "
      "updates of 1e-4 have no effect. An f32 master weight accumulates them; stochastic rounding "
      "needs no master weight and is right on average.",
      std::log2(result.ignored_update)));
  return result;
}

}  // namespace binade::lab
