#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/backend/profile.h"
#include "binade/tensor/memory.h"
#include "binade/train/config/config.h"

namespace binade::bench {

struct StepBenchOptions {
  int64_t warmup = 5;  // steps before the timed ones; a graph is captured among them
  int64_t steps = 20;
};

// Measurements of one precision's training steps.
struct StepTiming {
  train::Precision precision = train::Precision::fp32;
  double step_seconds = 0, best_step_seconds = 0;  // median and best
  double tokens_per_second = 0, best_tokens_per_second = 0;
  // From the start of the process, and of making the model, to the end of the first step.
  double first_step_since_start = 0, first_step_since_model = 0;
  double flops = 0;             // FLOP/s of the median step
  double share_of_peak = 0;     // of the instruction peak; 0: unknown
  backend::WorkSeconds work{};  // of one step by kind of work, from separate profiled steps
  double other_work = 0;        // the rest of such a step
  memory::Statistics memory;
  std::optional<double> joules_per_token = {};  // of the timed steps; none if unknown
  int64_t misses = 0;  // allocations that went to the system after the warmup
  double loss = 0;     // of the last step
  bool graph = false;  // steps were replays of a graph
};

// Trains the configured model on random tokens. On a GPU the timed steps run in five parts, for the
// median and the best; the host waits for the device only between them.
StepTiming bench_step(const train::Config& config, const StepBenchOptions& options);

std::string to_table(const train::Config& config, const std::vector<StepTiming>& timings);
std::string to_json(const train::Config& config, const std::vector<StepTiming>& timings);

}  // namespace binade::bench
