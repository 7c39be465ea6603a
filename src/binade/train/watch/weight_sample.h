#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/optim/optimizer.h"
#include "binade/train/watch/alarm.h"

namespace binade::train {

// Some elements of each trained parameter, at equal distances, in the type that updates change: of
// the master weights if there are any. On ranks, of those that this rank updates.
struct WeightSample {
  struct Entry {
    std::string name;
    std::vector<double> values;
  };
  std::vector<Entry> parameters;
};
WeightSample sample_weights(optim::Optimizer& optimizer,
                            const std::vector<std::pair<std::string, Tensor>>& parameters);

// The parameter whose values are far larger than those of the others; empty: none is.
std::string largest_parameter(const WeightSample& sample);
// The parameter whose values have grown far more than those of the others; empty: none has.
std::string most_grown_parameter(const WeightSample& before, const WeightSample& now);

// An alarm if nearly all values are the same after `updates` of them.
std::optional<Alarm> check_updates(const WeightSample& before, const WeightSample& now,
                                   int64_t step, int64_t updates, double lr);
// An alarm if a run of `steps` updates of at most `lr` each changes hardly a weight visibly.
std::optional<Alarm> check_learning_rate(const WeightSample& start, int64_t step, double lr,
                                         int64_t steps);

}  // namespace binade::train
