#pragma once

#include <array>
#include <string>
#include <vector>

#include "binade/lab/diagnosis.h"
#include "binade/lab/experiment_report.h"

// The experiments of `binade lab`, one file each in experiments/. Each computes, fills the report
// and returns its measurements, which tests compare with the claims of the report.
namespace binade::lab {

struct FormatsResult {
  struct Format {
    std::string name;
    double largest, smallest;         // positive numbers, found by decoding every code
    int64_t positive = 0;             // count of finite numbers above 0
    int64_t between_one_and_two = 0;  // count of numbers in [1, 2)
    double worst_rounding = 0;        // largest relative error of rounding normal numbers
  };
  std::vector<Format> formats;
};
FormatsResult formats_experiment(ExperimentReport& report);

struct UnderflowResult {
  // Fractions of f16 gradients that are zero, by their true magnitude.
  double at_1e9 = 0, at_1e7 = 0, at_1e6 = 0;
  double bf16_at_1e9 = 0;
  double scaled_at_1e9 = 0;  // f16 with the loss times 2^15
};
UnderflowResult underflow_experiment(ExperimentReport& report);

struct LossScalingResult {
  double start = 0;  // loss of the untrained model
  // Final losses.
  double f32 = 0, f16 = 0, f16_scaled = 0, bf16 = 0;
  double gradient_error = 0;  // largest relative error of unscaled f16 gradients
};
LossScalingResult loss_scaling_experiment(ExperimentReport& report);

struct OverflowRecoveryResult {
  std::vector<double> scales;  // after each step
  int64_t skipped = 0;         // all skipped steps
  int64_t skips_to_fit = 0;    // those at the start
  bool weights_kept = false;   // a skipped step changed nothing
  double final_loss = 0, first_loss = 0;
};
OverflowRecoveryResult overflow_recovery_experiment(ExperimentReport& report);

struct AttentionOverflowResult {
  double overflow_at = 0;  // standard deviation of q and k at which f16 scores first overflow
  bool f16_softmax_nan = false, bf16_finite = false, fused_finite = false;
  double fused_error = 0;  // relative to f32
};
AttentionOverflowResult attention_overflow_experiment(ExperimentReport& report);

struct AccumulationResult {
  double reference = 0, f16 = 0, bf16 = 0, f32 = 0;  // sums of 4096 micro-batch gradients
};
AccumulationResult accumulation_experiment(ExperimentReport& report);

struct SmallUpdatesResult {
  double without_master = 0, with_master = 0, stochastic = 0, reference = 0;  // final weights
  double ignored_update = 0;  // the largest power of two that does not change a bf16 weight of 1
};
SmallUpdatesResult small_updates_experiment(ExperimentReport& report);

struct Fp8RangeResult {
  double e4m3_small = 0, e4m3_large = 0;                // relative error of 1e-4 and 1e4, unscaled
  double worst_scaled_e4m3 = 0, worst_scaled_e5m2 = 0;  // over all sizes
  double e4m3_binades = 0, e5m2_binades = 0;            // width of the accurate range, unscaled
};
Fp8RangeResult fp8_range_experiment(ExperimentReport& report);

struct Fp8ScalingResult {
  struct Recipe {
    std::string name;
    double plain = 0, channels = 0, tokens = 0;  // SQNR of a matmul by the location of outliers, dB
  };
  std::vector<Recipe> recipes;
  double delayed_saturated = 0;  // fraction saturated in the step of a jump
  double delayed_recovered = 0;  // and in the next step
};
Fp8ScalingResult fp8_scaling_experiment(ExperimentReport& report);

struct StochasticRoundingResult {
  double nearest = 0, stochastic = 0;  // mean of many roundings of one number
  double reference = 0;                // the number
  double bound = 0;                    // four standard errors
};
StochasticRoundingResult stochastic_rounding_experiment(ExperimentReport& report);

struct MemoryResult {
  struct Mode {
    std::string name;
    double parameters = 0, gradients = 0, optimizer = 0;  // bytes per parameter
    double activations = 0, peak = 0;                     // bytes
  };
  std::vector<Mode> modes;
};
MemoryResult memory_experiment(ExperimentReport& report);

struct WhenItFailsResult {
  std::vector<Diagnosis> diagnoses;
};
WhenItFailsResult when_it_fails_experiment(ExperimentReport& report);

}  // namespace binade::lab
