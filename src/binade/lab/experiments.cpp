#include "binade/lab/experiments.h"

namespace binade::lab {
namespace {

template <auto experiment>
void tell(Story& story) {
  experiment(story);
}

}  // namespace

std::span<const Experiment> experiments() {
  static constexpr Experiment all[] = {
      {"formats", "The number line of each format", tell<formats_experiment>},
      {"underflow", "Small gradients vanish in f16", tell<underflow_experiment>},
      {"loss-scaling", "Loss scaling brings them back", tell<loss_scaling_experiment>},
      {"overflow-recovery", "Overflow, skip, back off, grow again",
       tell<overflow_recovery_experiment>},
      {"attention-overflow", "Attention scores past 65504", tell<attention_overflow_experiment>},
      {"accumulation", "Where gradients are summed", tell<accumulation_experiment>},
      {"small-updates", "Updates too small for the weight", tell<small_updates_experiment>},
      {"fp8-range", "What FP8 can hold", tell<fp8_range_experiment>},
      {"fp8-scaling", "FP8 scaling recipes against outliers", tell<fp8_scaling_experiment>},
      {"stochastic-rounding", "Right on average", tell<stochastic_rounding_experiment>},
      {"memory", "Where the bytes go", tell<memory_experiment>},
      {"when-it-fails", "When it fails, and how to find out why", tell<when_it_fails_experiment>},
  };
  return all;
}

}  // namespace binade::lab
