#include <fmt/format.h>

#include <cmath>

#include "binade/lab/experiments.h"
#include "binade/ops/create.h"
#include "binade/ops/reduce.h"
#include "binade/optim/sgd.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr int steps = 1000;
constexpr double rate = 1e-4;

// The mean of 256 bf16 weights of 1 whose gradient is 1 all the time.
train::Series descent(const std::string& name, optim::MasterOptions options) {
  Tensor w = ones({256}, DType::bf16);
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = rate, .master = options});
  train::Series series{name, {{0, 1}}};
  for (int i = 1; i <= steps; ++i) {
    sgd.zero_grad();
    sum(w).backward();
    sgd.step();
    if (i % 10 == 0) series.points.emplace_back(i, mean(w, {}, false, DType::f32).item());
  }
  return series;
}

// The largest power of two that, taken from a bf16 weight of 1, leaves it as it was.
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
  report.say(
      "256 weights of 1 in bf16, a gradient of 1, a learning rate of 1e-4: after 1000 steps they "
      "should be at 0.9. An update changes a weight only if it is at least half the distance to "
      "the next number, about 1/512 of it in bf16.");
  const train::Series master = descent("f32 master", {}),
                      none = descent("no master", {.masters = false}),
                      stochastic = descent("no master, stochastic rounding",
                                           {.masters = false, .stochastic_rounding = true});
  const auto last = [](const train::Series& series) { return series.points.back().second; };
  const SmallUpdatesResult claims{.without_master = last(none),
                                  .with_master = last(master),
                                  .stochastic = last(stochastic),
                                  .truth = 1 - steps * rate,
                                  .smallest_update = ignored_update()};
  report.table({"weights", "after 1000 steps", "should be"},
               {{master.name, fmt::format("{:.5f}", claims.with_master), "0.90000"},
                {none.name, fmt::format("{:.5f}", claims.without_master), "0.90000"},
                {stochastic.name, fmt::format("{:.5f}", claims.stochastic), "0.90000"}});
  report.figure(train::line_chart({"Mean weight", "step", "weight"}, {master, none, stochastic}));
  report.proves(fmt::format(
      "a bf16 weight of 1 ignores updates up to 2^{:.0f}: without a master the thousand updates of "
      "1e-4 are a thousand times nothing. An f32 master collects them; stochastic rounding, which "
      "needs no master, gets there on average.",
      std::log2(claims.smallest_update)));
  return claims;
}

}  // namespace binade::lab
