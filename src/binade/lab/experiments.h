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

struct LowScaleResult {
  struct Run {
    int power = 0;              // of the scale
    double zero_gradients = 0;  // fraction in the first step
    double first_loss = 0, last_loss = 0;
    int64_t skipped = 0;
  };
  std::vector<Run> runs;  // by falling scale
};
LowScaleResult low_scale_experiment(ExperimentReport& report);

struct FallingScaleResult {
  struct Run {
    std::vector<double> losses, scales;  // by step
    int64_t skipped = 0;
  };
  Run stable, unstable, unstable_f32;
};
FallingScaleResult falling_scale_experiment(ExperimentReport& report);

struct WideGradientsResult {
  // Fractions of a gradient at one loss scale.
  struct Lost {
    int power = 0;  // of the scale
    double zero = 0, infinite = 0;
    double total() const { return zero + infinite; }
  };
  struct Span {
    double binades = 0;  // from the smallest component to the largest
    Lost f16;            // at the scale that loses the fewest
    Lost bf16;           // without a scale
  };
  double f16_binades = 0, f16_decades = 0;  // from the smallest subnormal number to the largest
  std::vector<Span> spans;
};
WideGradientsResult wide_gradients_experiment(ExperimentReport& report);

struct PureF16Result {
  struct Run {
    std::string name;
    double first_loss = 0, last_loss = 0;
    int non_finite_from = -1;  // step; -1: never
  };
  std::vector<Run> runs;  // f32, master weights, f16 weights, f16 everywhere
};
PureF16Result pure_f16_experiment(ExperimentReport& report);

struct ManualCastsResult {
  struct Run {
    std::string name;
    std::vector<double> losses;
    int64_t skipped = 0;
  };
  double collapsed = 0;   // fraction of inputs that the norm by hand maps to zero
  std::vector<Run> runs;  // f32, autocast, norm by hand, softmax by hand
};
ManualCastsResult manual_casts_experiment(ExperimentReport& report);

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
  double unit_largest = 0, unit_expected = 0;  // largest score at deviation 1, and its estimate
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

struct Fp8KeepersResult {
  struct Run {
    std::string name;
    double gradient_error = 0;  // at the initial weights, relative to f32
    double loss = 0;
  };
  std::vector<Run> runs;  // f32, FP8 matmuls, and softmax, and norms, and residual stream
};
Fp8KeepersResult fp8_keepers_experiment(ExperimentReport& report);

struct Int8Result {
  std::vector<double> losses;                 // f32, int8 forward, int8 forward and backward, FP8
  double int8_flushed = 0, e5m2_flushed = 0;  // fractions of a gradient that round to zero
};
Int8Result int8_experiment(ExperimentReport& report);

struct TpuResult {
  struct Mode {
    std::string name;
    std::string result;  // type of a matmul's result
    double error = 0;    // of a matmul, relative
    double loss = 0;
  };
  std::vector<Mode> modes;  // f32, TPU, autocast
};
TpuResult tpu_experiment(ExperimentReport& report);

struct SpeedUpResult {
  enum class Bound : uint8_t { compute, memory };
  struct Op {
    std::string name;
    Bound bound;
    double flops_per_byte = 0;  // in f32
    double bf16 = 0, f16 = 0;   // speed relative to f32
  };
  std::vector<Op> ops;
};
SpeedUpResult speed_up_experiment(ExperimentReport& report);

struct StochasticRoundingResult {
  double nearest = 0, stochastic = 0;  // mean of many roundings of one number
  double reference = 0;                // the number
  double bound = 0;                    // four standard errors
};
StochasticRoundingResult stochastic_rounding_experiment(ExperimentReport& report);

struct TensorCoreResult {
  struct Sum {
    std::string name;
    double f64 = 0, f32 = 0, ampere = 0, hopper = 0;
  };
  // Of matmuls of e4m3 numbers: relative to the results, by what adds the products up.
  struct Errors {
    int64_t depth = 0;
    double f32 = 0;       // a loop
    double half = 0;      // Hopper's 16-bit instructions
    double fast = 0;      // its FP8 instructions
    double promoted = 0;  // these, with promotion
  };
  std::vector<Sum> sums;
  std::vector<Errors> positive;  // by rising depth
  Errors both_signs;
};
TensorCoreResult tensor_core_experiment(ExperimentReport& report);

struct MemoryResult {
  struct Mode {
    std::string name;
    double parameters = 0, gradients = 0, optimizer = 0;  // bytes per parameter
    double activations = 0, peak = 0;                     // bytes
  };
  struct Gradients {
    std::string dtype;
    double bytes = 0, peak = 0;  // per parameter; of a forward and backward
  };
  std::vector<Mode> modes;
  std::vector<Gradients> gradients;
};
MemoryResult memory_experiment(ExperimentReport& report);

struct WhenItFailsResult {
  std::vector<Diagnosis> diagnoses;
};
WhenItFailsResult when_it_fails_experiment(ExperimentReport& report);

}  // namespace binade::lab
