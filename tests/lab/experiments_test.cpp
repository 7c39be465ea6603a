#include "binade/lab/experiments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

// The measurements of each experiment must support its conclusion.
namespace binade::lab {
namespace {

using ::testing::HasSubstr;

template <class F>
auto run(F experiment) {
  ExperimentReport report;
  auto result = experiment(report);
  EXPECT_THAT(report.text(), HasSubstr("Conclusion:"));
  EXPECT_THAT(report.html(), HasSubstr("class=\"conclusion\""));
  if (report.html().find("<svg") != std::string::npos) {
    EXPECT_EQ(report.html().find("nan"), std::string::npos) << "a figure with a NaN coordinate";
  }
  return result;
}

TEST(Experiments, Formats) {
  const FormatsResult result = run(formats_experiment);
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
  const UnderflowResult result = run(underflow_experiment);
  EXPECT_GT(result.at_1e9, 0.99);
  EXPECT_LT(result.at_1e6, 0.1);
  EXPECT_GT(result.at_1e7, result.at_1e6);
  EXPECT_EQ(result.bf16_at_1e9, 0);
  EXPECT_LT(result.scaled_at_1e9, 0.01);
}

TEST(Experiments, LossScaling) {
  const LossScalingResult result = run(loss_scaling_experiment);
  EXPECT_GT(result.f16, 0.99 * result.start);
  EXPECT_LT(result.f32, 0.2 * result.start);
  EXPECT_NEAR(result.f16_scaled, result.f32, 0.05 * result.f32);
  EXPECT_NEAR(result.bf16, result.f32, 0.05 * result.f32);
  // Two roundings to f16, of the operand and of the result.
  EXPECT_LE(result.gradient_error, 2 * 0x1p-11 * 1.01);
}

TEST(Experiments, OverflowRecovery) {
  const OverflowRecoveryResult result = run(overflow_recovery_experiment);
  EXPECT_GT(result.skips_to_fit, 5);
  EXPECT_GT(result.skipped, result.skips_to_fit);  // a later growth overflows at least once
  EXPECT_TRUE(result.weights_kept);
  EXPECT_LT(result.scales.back(), 0x1p30);
  EXPECT_LT(result.final_loss, 0.01 * result.first_loss);
}

TEST(Experiments, AttentionOverflow) {
  const AttentionOverflowResult result = run(attention_overflow_experiment);
  EXPECT_GT(result.overflow_at, 8);
  EXPECT_LT(result.overflow_at, 40);
  EXPECT_TRUE(result.f16_softmax_nan);
  EXPECT_TRUE(result.bf16_finite);
  EXPECT_TRUE(result.fused_finite);
  EXPECT_LT(result.fused_error, 0x1p-10);
}

TEST(Experiments, Accumulation) {
  const AccumulationResult result = run(accumulation_experiment);
  EXPECT_EQ(result.reference, 1);
  EXPECT_EQ(result.f32, 1);
  EXPECT_EQ(result.f16, 0.5);      // 2^-12 is half a unit in the last place there
  EXPECT_EQ(result.bf16, 0.0625);  // and here, with three bits fewer
}

TEST(Experiments, SmallUpdates) {
  const SmallUpdatesResult result = run(small_updates_experiment);
  EXPECT_EQ(result.without_master, 1);
  EXPECT_NEAR(result.with_master, result.reference, 0x1p-9);
  EXPECT_NEAR(result.stochastic, result.reference, 0.01);
  EXPECT_EQ(result.ignored_update, 0x1p-9);
}

TEST(Experiments, Fp8Range) {
  const Fp8RangeResult result = run(fp8_range_experiment);
  EXPECT_GT(result.e4m3_small, 0.99);
  EXPECT_GT(result.e4m3_large, 0.9);
  // A uniform error within half a unit has a root mean square of 1 / sqrt(3) of that.
  EXPECT_LT(result.worst_scaled_e4m3, 0x1p-4 / std::sqrt(3.0));
  EXPECT_LT(result.worst_scaled_e5m2, 0x1p-3 / std::sqrt(3.0));
  EXPECT_GT(result.e5m2_binades, result.e4m3_binades + 10);
}

TEST(Experiments, Fp8Scaling) {
  const Fp8ScalingResult result = run(fp8_scaling_experiment);
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
  const StochasticRoundingResult result = run(stochastic_rounding_experiment);
  EXPECT_EQ(result.nearest, 1);
  EXPECT_NEAR(result.stochastic, result.reference, result.bound);
}

TEST(Experiments, Memory) {
  const MemoryResult result = run(memory_experiment);
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
  EXPECT_LT(recompute.activations, 0.35 * of("bf16 autocast").activations);
}

TEST(Experiments, WhenItFails) {
  const WhenItFailsResult result = run(when_it_fails_experiment);
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
    const auto begin = std::chrono::steady_clock::now();
    one.run(run.report);
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 20)
        << one.name;
    completed.push_back(run);
  }
  EXPECT_EQ(completed.size(), 12u);
  const std::string page = lab_page(completed);
  for (const Experiment& one : experiments())
    EXPECT_THAT(page, HasSubstr("<section id=\"" + std::string(one.name) + "\">"));
  for (const char* outside : {"http:", "https:", "<script", "url("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_GE(std::count(page.begin(), page.end(), '\n'), 100);
}

}  // namespace
}  // namespace binade::lab
