#include "binade/lab/experiments.h"

namespace binade::lab {
namespace {

// Drops an experiment's result, which only tests use.
template <auto experiment>
void run(ExperimentReport& report) {
  experiment(report);
}

}  // namespace

std::span<const Experiment> experiments() {
  static constexpr Experiment all[] = {
      {"formats", "The numbers of each format", run<formats_experiment>},
      {"underflow", "Small gradients vanish in f16", run<underflow_experiment>},
      {"loss-scaling", "Loss scaling preserves small gradients", run<loss_scaling_experiment>},
      {"overflow-recovery", "The loss scaler recovers from overflow",
       run<overflow_recovery_experiment>},
      {"low-scale", "A loss scale that is too low stalls silently", run<low_scale_experiment>},
      {"falling-scale", "A loss scale that keeps falling", run<falling_scale_experiment>},
      {"wide-gradients", "Gradients wider than f16, where no scale helps",
       run<wide_gradients_experiment>},
      {"pure-f16", "Training without any f32", run<pure_f16_experiment>},
      {"manual-casts", "Norms and softmax cast by hand", run<manual_casts_experiment>},
      {"attention-overflow", "Attention scores beyond 65504", run<attention_overflow_experiment>},
      {"accumulation", "Accumulating gradients in 16 bits", run<accumulation_experiment>},
      {"small-updates", "Updates too small for a bf16 weight", run<small_updates_experiment>},
      {"fp8-range", "The range of FP8", run<fp8_range_experiment>},
      {"fp8-scaling", "FP8 scaling recipes and outliers", run<fp8_scaling_experiment>},
      {"fp8-keepers", "Norms, softmax and residual stream in FP8", run<fp8_keepers_experiment>},
      {"int8", "Why training does not run in int8", run<int8_experiment>},
      {"tpu", "bf16 products of f32 storage", run<tpu_experiment>},
      {"tensor-core", "What a tensor core does with a sum", run<tensor_core_experiment>},
      {"stochastic-rounding", "Stochastic rounding is unbiased",
       run<stochastic_rounding_experiment>},
      {"speed-up", "Ops bound by arithmetic and by memory", run<speed_up_experiment>},
      {"memory", "Memory by precision", run<memory_experiment>},
      {"when-it-fails", "Finding the cause of a NaN loss", run<when_it_fails_experiment>},
  };
  return all;
}

}  // namespace binade::lab
