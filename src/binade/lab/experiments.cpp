#include "binade/lab/experiments.h"

namespace binade::lab {
namespace {

template <auto experiment>
void run(ExperimentReport& report) {
  experiment(report);
}

}  // namespace

std::span<const Experiment> experiments() {
  static constexpr Experiment all[] = {
      {"formats", "The number line of each format", run<formats_experiment>},
      {"underflow", "Small gradients vanish in f16", run<underflow_experiment>},
      {"loss-scaling", "Loss scaling brings them back", run<loss_scaling_experiment>},
      {"overflow-recovery", "Overflow, skip, back off, grow again",
       run<overflow_recovery_experiment>},
      {"attention-overflow", "Attention scores past 65504", run<attention_overflow_experiment>},
      {"accumulation", "Where gradients are summed", run<accumulation_experiment>},
      {"small-updates", "Updates too small for the weight", run<small_updates_experiment>},
      {"fp8-range", "What FP8 can hold", run<fp8_range_experiment>},
      {"fp8-scaling", "FP8 scaling recipes against outliers", run<fp8_scaling_experiment>},
      {"stochastic-rounding", "Right on average", run<stochastic_rounding_experiment>},
      {"memory", "Where the bytes go", run<memory_experiment>},
      {"when-it-fails", "When it fails, and how to find out why", run<when_it_fails_experiment>},
  };
  return all;
}

}  // namespace binade::lab
