#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/bench/step_cost.h"
#include "binade/train/config/config.h"

namespace binade::bench {

// Measurements of one precision's training steps.
struct StepTiming {
  train::Precision precision = train::Precision::fp32;
  StepCost cost;
  double tokens_per_second = 0, best_tokens_per_second = 0;
  double flops = 0;                             // FLOP/s of the median step
  double share_of_peak = 0;                     // of the instruction peak; 0: unknown
  std::optional<double> joules_per_token = {};  // of the timed steps; none if unknown
  double loss = 0;                              // of the last step
  bool graph = false;                           // steps were replays of a graph
};

// Trains the configured model on random tokens; see measure_steps.
StepTiming bench_step(const train::Config& config, const StepBenchOptions& options);

std::string to_table(const train::Config& config, const std::vector<StepTiming>& timings);
std::string to_json(const train::Config& config, const std::vector<StepTiming>& timings);

}  // namespace binade::bench
