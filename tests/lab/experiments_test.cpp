#include "binade/lab/experiments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "io/temporary_folder.h"
#include "support/approved_text.h"
#include "support/pages.h"

// The measurements of each experiment must support its conclusion, and its text say them.
namespace binade::lab {
namespace {

using ::testing::HasSubstr;

// `approved`: the file of its text in tests/golden/lab; none if it is about time. `tolerance`: of
// its numbers, larger if rounding grows with the steps.
template <class F>
auto run(F experiment, const std::string& approved = "", double tolerance = 0.03) {
  ExperimentReport report;
  auto result = experiment(report);
  if (!approved.empty()) {
    const std::string text = testing::content_of(testing::golden("lab/" + approved + ".txt"));
    EXPECT_EQ(test::difference_from_approved(report.text(), text, tolerance), "") << "all of it:\n"
                                                                                  << report.text();
  }
  EXPECT_THAT(report.text(), HasSubstr("Conclusion:"));
  EXPECT_THAT(report.html(), HasSubstr("class=\"conclusion\""));
  if (report.html().find("<svg") != std::string::npos) {
    EXPECT_EQ(report.html().find("nan"), std::string::npos) << "a figure with a NaN coordinate";
  }
  return result;
}

TEST(Experiments, Formats) {
  const FormatsResult result = run(formats_experiment, "formats");
  const auto of = [&](const std::string& name) {
    return *std::find_if(result.formats.begin(), result.formats.end(),
                         [&](const auto& one) { return one.name == name; });
  };
  EXPECT_EQ(of("f16").largest, 65504);
  EXPECT_EQ(of("f16").smallest, 0x1p-24);
  EXPECT_EQ(of("bf16").smallest, 0x1p-133);
  EXPECT_EQ(of("e4m3").largest, 448);
  EXPECT_EQ(of("e4m3").positive, 126);  // 127 codes above 0, one of them NaN
  EXPECT_EQ(of("e4m3fnuz").largest, 240);
  EXPECT_EQ(of("e5m2").largest, 57344);
  EXPECT_EQ(of("f16").between_one_and_two, 1024);
  EXPECT_EQ(of("bf16").between_one_and_two, 128);
  EXPECT_EQ(of("e4m3").between_one_and_two, 8);
  EXPECT_EQ(of("e5m2").between_one_and_two, 4);
  // At most half a unit in the last place.
  for (const auto& [name, mantissa] :
       {std::pair("f16", 10), {"bf16", 7}, {"e4m3", 3}, {"e5m2", 2}}) {
    EXPECT_LE(of(name).worst_rounding, std::ldexp(1.0, -mantissa - 1)) << name;
    EXPECT_GE(of(name).worst_rounding, 0.8 * std::ldexp(1.0, -mantissa - 1)) << name;
  }
}

TEST(Experiments, Underflow) {
  const UnderflowResult result = run(underflow_experiment, "underflow");
  EXPECT_GT(result.at_1e9, 0.99);
  EXPECT_LT(result.at_1e6, 0.1);
  EXPECT_GT(result.at_1e7, result.at_1e6);
  EXPECT_EQ(result.bf16_at_1e9, 0);
  EXPECT_LT(result.scaled_at_1e9, 0.01);
}

TEST(Experiments, LossScaling) {
  const LossScalingResult result = run(loss_scaling_experiment, "loss-scaling");
  EXPECT_GT(result.f16, 0.99 * result.start);
  EXPECT_LT(result.f32, 0.2 * result.start);
  EXPECT_NEAR(result.f16_scaled, result.f32, 0.05 * result.f32);
  EXPECT_NEAR(result.bf16, result.f32, 0.05 * result.f32);
  // Two roundings to f16, of the operand and of the result.
  EXPECT_LE(result.gradient_error, 2 * 0x1p-11 * 1.01);
}

TEST(Experiments, LowScale) {
  const LowScaleResult result = run(low_scale_experiment, "low-scale");
  ASSERT_EQ(result.runs.size(), 5u);
  const LowScaleResult::Run &high = result.runs.front(), &low = result.runs.back();
  EXPECT_LT(high.zero_gradients, 0.01);
  EXPECT_LT(high.last_loss, 0.1 * high.first_loss);
  EXPECT_EQ(low.zero_gradients, 1);
  EXPECT_EQ(low.last_loss, low.first_loss);
  EXPECT_EQ(low.skipped, 0);  // silently
}

TEST(Experiments, FallingScale) {
  const FallingScaleResult result = run(falling_scale_experiment, "falling-scale");
  EXPECT_GE(result.stable.scales.back(), result.stable.scales.front());
  EXPECT_LT(result.stable.losses.back(), 0.01 * result.stable.losses.front());
  EXPECT_LE(result.unstable.scales.back(), result.unstable.scales.front() / 16);
  EXPECT_GE(result.unstable.skipped, 4);
  EXPECT_GT(result.unstable.losses.back(), 100 * result.unstable.losses.front());
  EXPECT_GT(result.unstable_f32.losses.back(), 100 * result.unstable_f32.losses.front());
}

TEST(Experiments, WideGradients) {
  const WideGradientsResult result = run(wide_gradients_experiment, "wide-gradients");
  EXPECT_NEAR(result.f16_binades, 40, 0.01);  // 2^-24 to just below 2^16
  EXPECT_NEAR(result.f16_decades, 12, 0.1);
  ASSERT_EQ(result.spans.size(), 4u);
  EXPECT_EQ(result.spans[0].f16.total(), 0);  // 20 binades fit
  // Of 60 binades at most 41 survive: those of f16 and the half below, which rounds up.
  EXPECT_NEAR(result.spans[2].f16.total(), 1 - 41. / 60, 0.02);
  EXPECT_NEAR(result.spans[3].f16.total(), 1 - 41. / 80, 0.02);
  for (const auto& span : result.spans) EXPECT_EQ(span.bf16.total(), 0) << span.binades;
}

TEST(Experiments, PureF16) {
  const PureF16Result result = run(pure_f16_experiment, "pure-f16");
  ASSERT_EQ(result.runs.size(), 4u);
  const auto progress = [&](size_t i) {
    return result.runs[i].first_loss - result.runs[i].last_loss;
  };
  EXPECT_GT(progress(0), 0.1);
  EXPECT_NEAR(progress(1), progress(0), 0.02 * progress(0));
  EXPECT_LT(progress(2), 0.7 * progress(0));
  EXPECT_GE(result.runs[3].non_finite_from, 1);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(result.runs[i].non_finite_from, -1) << i;
}

TEST(Experiments, ManualCasts) {
  const ManualCastsResult result = run(manual_casts_experiment, "manual-casts");
  ASSERT_EQ(result.runs.size(), 4u);
  const auto &f32 = result.runs[0], &autocast = result.runs[1], &norm = result.runs[2],
             &softmax = result.runs[3];
  EXPECT_LT(f32.losses.back(), 0.01);
  EXPECT_LT(autocast.losses.back(), 0.01);
  EXPECT_GT(result.collapsed, 0.95);
  EXPECT_NEAR(norm.losses.back(), std::log(8), 0.05);  // it knows no more than the classes' number
  EXPECT_EQ(norm.skipped, 0);
  EXPECT_GT(softmax.skipped, 50);
}

TEST(Experiments, Fp8Keepers) {
  const Fp8KeepersResult result = run(fp8_keepers_experiment, "fp8-keepers", 0.6);
  ASSERT_EQ(result.runs.size(), 5u);
  EXPECT_EQ(result.runs[0].gradient_error, 0);
  EXPECT_GT(result.runs[1].gradient_error, 0);
  EXPECT_GT(result.runs[4].gradient_error, 1.2 * result.runs[1].gradient_error);
  EXPECT_GT(result.runs[4].loss, result.runs[0].loss);
}

TEST(Experiments, Int8) {
  const Int8Result result = run(int8_experiment, "int8", 0.6);
  ASSERT_EQ(result.losses.size(), 4u);
  EXPECT_GT(result.losses[2], 2 * result.losses[3]);  // int8 backward against FP8
  EXPECT_GT(result.int8_flushed, 0.5);
  EXPECT_LT(result.e5m2_flushed, 0.2);
}

TEST(Experiments, Tpu) {
  const TpuResult result = run(tpu_experiment, "tpu");
  ASSERT_EQ(result.modes.size(), 3u);
  EXPECT_EQ(result.modes[1].result, "f32");
  EXPECT_EQ(result.modes[2].result, "bf16");
  EXPECT_LT(result.modes[0].error, 0x1p-20);
  // Two operands, each rounded with a relative error of at most 2^-9.
  EXPECT_LT(result.modes[1].error, 2 * 0x1p-9);
  EXPECT_GT(result.modes[1].error, 100 * result.modes[0].error);
  EXPECT_GT(result.modes[2].error, result.modes[1].error);
  for (const TpuResult::Mode& mode : result.modes)
    EXPECT_NEAR(mode.loss, result.modes[0].loss, 0.05 * result.modes[0].loss) << mode.name;
}

TEST(Experiments, SpeedUp) {
  const SpeedUpResult result = run(speed_up_experiment);
  ASSERT_EQ(result.ops.size(), 6u);
  // Two operations per product, and three matrices of 4 bytes.
  EXPECT_DOUBLE_EQ(result.ops[0].flops_per_byte, 2 * 512 / (3 * 4.0));
  // 4 images of 32 x 32 and 64 channels: each output of 64 x 3 x 3 products; images in and out, and
  // the weights.
  constexpr double image = 4 * 32 * 32 * 64, products = 64 * 3 * 3;
  EXPECT_DOUBLE_EQ(result.ops[1].flops_per_byte,
                   2 * image * products / (4 * (2 * image + 64 * products)));
  EXPECT_DOUBLE_EQ(result.ops[2].flops_per_byte, 1 / 12.0);  // add: two read, one written
  EXPECT_DOUBLE_EQ(result.ops[3].flops_per_byte, 1 / 8.0);   // relu
  for (const SpeedUpResult::Op& op : result.ops) {
    EXPECT_EQ(op.flops_per_byte > 10, op.bound == SpeedUpResult::Bound::compute) << op.name;
    EXPECT_GT(op.bf16, 0) << op.name;
    EXPECT_GT(op.f16, 0) << op.name;
  }
}

TEST(Experiments, OverflowRecovery) {
  const OverflowRecoveryResult result = run(overflow_recovery_experiment, "overflow-recovery");
  EXPECT_GT(result.skips_to_fit, 5);
  EXPECT_GT(result.skipped, result.skips_to_fit);  // a later growth overflows at least once
  EXPECT_TRUE(result.weights_kept);
  EXPECT_LT(result.scales.back(), 0x1p30);
  EXPECT_LT(result.final_loss, 0.01 * result.first_loss);
}

TEST(Experiments, AttentionOverflow) {
  const AttentionOverflowResult result = run(attention_overflow_experiment, "attention-overflow");
  // 65504 = deviation^2 sqrt(2 ln(128^2) 128) at a deviation of 36.
  EXPECT_GE(result.overflow_at, 32);
  EXPECT_LE(result.overflow_at, 40);
  EXPECT_NEAR(result.unit_largest, result.unit_expected, 0.15 * result.unit_expected);
  EXPECT_TRUE(result.f16_softmax_nan);
  EXPECT_TRUE(result.bf16_finite);
  EXPECT_TRUE(result.fused_finite);
  EXPECT_LT(result.fused_error, 0x1p-10);
}

TEST(Experiments, Accumulation) {
  const AccumulationResult result = run(accumulation_experiment, "accumulation");
  EXPECT_EQ(result.reference, 1);
  EXPECT_EQ(result.f32, 1);
  EXPECT_EQ(result.f16, 0.5);      // 2^-12 is half a unit in the last place there
  EXPECT_EQ(result.bf16, 0.0625);  // and here, with three bits fewer
}

TEST(Experiments, SmallUpdates) {
  const SmallUpdatesResult result = run(small_updates_experiment, "small-updates");
  EXPECT_EQ(result.without_master, 1);
  EXPECT_NEAR(result.with_master, result.reference, 0x1p-9);
  EXPECT_NEAR(result.stochastic, result.reference, 0.01);
  EXPECT_EQ(result.ignored_update, 0x1p-9);
}

TEST(Experiments, Fp8Range) {
  const Fp8RangeResult result = run(fp8_range_experiment, "fp8-range");
  EXPECT_GT(result.e4m3_small, 0.99);
  EXPECT_GT(result.e4m3_large, 0.9);
  // A uniform error within half a unit has a root mean square of 1 / sqrt(3) of that.
  EXPECT_LT(result.worst_scaled_e4m3, 0x1p-4 / std::sqrt(3.0));
  EXPECT_LT(result.worst_scaled_e5m2, 0x1p-3 / std::sqrt(3.0));
  EXPECT_GT(result.e5m2_binades, result.e4m3_binades + 10);
}

TEST(Experiments, Fp8Scaling) {
  const Fp8ScalingResult result = run(fp8_scaling_experiment, "fp8-scaling");
  ASSERT_EQ(result.recipes.size(), 4u);
  const auto &tensor = result.recipes[0], &row = result.recipes[1], &block = result.recipes[2],
             &mx = result.recipes[3];
  for (const auto& recipe : result.recipes) EXPECT_GT(recipe.plain, 20) << recipe.name;
  EXPECT_LT(tensor.channels, 1);
  EXPECT_LT(row.channels, 1);  // every row has the giant channels
  EXPECT_GT(block.channels, tensor.channels + 2);
  EXPECT_GT(mx.channels, block.channels + 4);
  EXPECT_LT(tensor.tokens, 1);
  for (const auto* fine : {&row, &block, &mx}) EXPECT_GT(fine->tokens, 20) << fine->name;
  EXPECT_GT(result.delayed_saturated, 0.5);
  EXPECT_LT(result.delayed_recovered, 0.01);
}

TEST(Experiments, StochasticRounding) {
  const StochasticRoundingResult result =
      run(stochastic_rounding_experiment, "stochastic-rounding");
  EXPECT_EQ(result.nearest, 1);
  EXPECT_NEAR(result.stochastic, result.reference, result.bound);
}

TEST(Experiments, TensorCore) {
  const TensorCoreResult result = run(tensor_core_experiment, "tensor-core");
  const auto sum = [&](const std::string& name) {
    return *std::find_if(result.sums.begin(), result.sums.end(),
                         [&](const auto& one) { return one.name == name; });
  };
  // One bit more on Hopper, and none for rounding.
  EXPECT_EQ(sum("1 + 4 x 2^-25").ampere, 1);
  EXPECT_EQ(sum("1 + 4 x 2^-25").hopper, sum("1 + 4 x 2^-25").f64);
  EXPECT_LT(sum("1 + 2^-23 + 2^-24").hopper, sum("1 + 2^-23 + 2^-24").f64);
  EXPECT_GT(sum("1 + 2^-23 + 2^-24").f32, sum("1 + 2^-23 + 2^-24").f64);
  EXPECT_EQ(sum("2^25 - 2^25 + 1").hopper, 1);
  EXPECT_EQ(sum("2^26 - 2^26 + 1").hopper, 0);
  ASSERT_EQ(result.positive.size(), 4u);
  // Promotion every 128: no different at K = 128, and no worse from there on.
  EXPECT_EQ(result.positive[0].fast, result.positive[0].promoted);
  for (size_t i = 1; i < result.positive.size(); ++i) {
    EXPECT_GT(result.positive[i].fast, 3 * result.positive[i - 1].fast);
    EXPECT_LT(result.positive[i].promoted, 1.1 * result.positive[0].promoted);
    EXPECT_LT(result.positive[i].half, 1e-5);
  }
  EXPECT_LT(result.both_signs.fast, 0.1 * result.positive.back().fast);
}

TEST(Experiments, Memory) {
  const MemoryResult result = run(memory_experiment, "memory");
  const auto of = [&](const std::string& name) {
    return *std::find_if(result.modes.begin(), result.modes.end(),
                         [&](const auto& one) { return one.name == name; });
  };
  const auto fp32 = of("fp32"), with_masters = of("bf16, f32 master weights"),
             moments = of("and bf16 moments"), recompute = of("bf16, recompute");
  EXPECT_NEAR(fp32.parameters, 4, 0.01);
  EXPECT_NEAR(fp32.gradients, 4, 0.01);
  EXPECT_NEAR(fp32.optimizer, 8, 0.01);
  EXPECT_NEAR(with_masters.parameters, 2, 0.01);
  EXPECT_NEAR(with_masters.optimizer, 12, 0.01);
  EXPECT_NEAR(moments.optimizer, 8, 0.01);
  EXPECT_LT(with_masters.activations, 0.56 * fp32.activations);
  ASSERT_EQ(result.gradients.size(), 2u);
  EXPECT_NEAR(result.gradients[0].bytes, 4, 0.01);
  EXPECT_NEAR(result.gradients[1].bytes, 2, 0.01);
  EXPECT_LT(result.gradients[1].peak, result.gradients[0].peak);
  EXPECT_LT(recompute.activations, 0.35 * of("bf16 autocast").activations);
}

TEST(Experiments, WhenItFails) {
  const WhenItFailsResult result = run(when_it_fails_experiment, "when-it-fails");
  ASSERT_EQ(result.diagnoses.size(), 5u);
  const Verdict expected[] = {Verdict::range, Verdict::loss_scale, Verdict::op, Verdict::state,
                              Verdict::data};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(result.diagnoses[i].verdict, expected[i]) << i;
  EXPECT_EQ(result.diagnoses[0].finding.module, "blocks.1.mlp.down");
}

TEST(Experiments, AreAllListedAndOnThePage) {
  std::vector<CompletedExperiment> completed;
  for (const Experiment& one : experiments()) {
    CompletedExperiment run{one, {}};
    const std::clock_t begin = std::clock();
    one.run(run.report);
    // CPU time of all threads: other work on the machine does not count.
    EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 40) << one.name;
    completed.push_back(run);
  }
  EXPECT_EQ(completed.size(), 22u);
  const std::string page = lab_page(completed);
  for (const Experiment& one : experiments())
    EXPECT_THAT(page, HasSubstr("<section id=\"" + std::string(one.name) + "\">"));
  EXPECT_THAT(test::outside_references(page), ::testing::IsEmpty());
  EXPECT_GE(std::count(page.begin(), page.end(), '\n'), 100);
}

}  // namespace
}  // namespace binade::lab
