#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/backend/profile.h"
#include "binade/base/json.h"
#include "binade/tensor/device.h"
#include "binade/tensor/memory.h"

// Time and memory of training steps, whatever they train.
namespace binade::bench {

struct StepBenchOptions {
  int64_t warmup = 5;  // steps before the timed ones; a graph is captured among them
  int64_t steps = 20;
};

struct StepCost {
  double step_seconds = 0, best_step_seconds = 0;  // median and best
  // From the start of the process, and of making the model, to the end of the first step.
  double first_step_since_start = 0, first_step_since_model = 0;
  backend::WorkSeconds work{};  // of one step by kind of work, from separate profiled steps
  double other_work = 0;        // the rest of such a step
  memory::Statistics memory;
  std::optional<double> joules = {};  // of one timed step; none if unknown
  int64_t misses = 0;                 // allocations that went to the system after the warmup
};

using Step = std::function<void()>;

// Runs warmup and timed steps. `start` is bench_clock() before the model was made. On a GPU the
// timed steps run in five parts, for the median and the best; the host waits for the device only
// between them.
StepCost measure_steps(Device device, const StepBenchOptions& options, double start,
                       const Step& step);

// Measures the seconds of one step by kind of work, in extra steps: timing each kernel slows them.
void profile_steps(Device device, const StepBenchOptions& options, const Step& step,
                   StepCost& cost);

// A row's name and cost.
using NamedCost = std::pair<std::string_view, const StepCost*>;
std::string work_table(const std::vector<NamedCost>& rows);
std::string memory_table(const std::vector<NamedCost>& rows);

// A number, or null if it is non-finite.
void write_number(json::Writer& out, std::string_view key, double value);
// The members of a cost, without the energy, in an object that was begun.
void write_cost(json::Writer& out, const StepCost& cost);

}  // namespace binade::bench
