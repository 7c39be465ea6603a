#include "binade/train/watch/weight_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/optim/adam.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;

WeightSample sample_of(std::vector<std::pair<std::string, double>> sizes) {
  WeightSample sample;
  for (const auto& [name, size] : sizes) sample.parameters.push_back({name, {size, -size}});
  return sample;
}

TEST(WeightSample, FindsTheParameterThatStandsOut) {
  EXPECT_EQ(largest_parameter(sample_of({{"a", 0.02}, {"head", 20}, {"b", 0.03}, {"norm", 1}})),
            "head");
  // Gains of norms are 1 among weights of 0.02.
  EXPECT_EQ(largest_parameter(sample_of({{"a", 0.02}, {"norm", 1}, {"b", 0.03}})), "");
  // Biases start from 0.
  EXPECT_EQ(largest_parameter(sample_of({{"a", 0.02}, {"bias", 0}, {"b", 0.03}, {"c", 0.02}})), "");
}

TEST(WeightSample, FindsTheParameterThatGrew) {
  const WeightSample before = sample_of({{"a", 0.02}, {"b", 0.02}, {"c", 1}, {"d", 0}});
  EXPECT_EQ(most_grown_parameter(before, sample_of({{"a", 0.03}, {"b", 3}, {"c", 1.1}, {"d", 5}})),
            "b");
  EXPECT_EQ(most_grown_parameter(before, sample_of({{"a", 3}, {"b", 3}, {"c", 1.1}, {"d", 0}})),
            "");
}

TEST(WeightSample, CountsUnchangedWeights) {
  const WeightSample before = sample_of({{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}});
  WeightSample now = before;
  const auto alarm = check_updates(before, now, 21, 20, 1e-12);
  ASSERT_TRUE(alarm);
  EXPECT_EQ(alarm->cause, Cause::stalled);
  EXPECT_EQ(alarm->step, 21);
  EXPECT_THAT(alarm->finding, HasSubstr("0 of 10 sampled weights have changed in 20 updates"));
  EXPECT_FALSE(check_updates(before, now, 21, 9, 1e-12));  // most steps were skipped
  now.parameters[2].values[1] += 1;                        // a tenth
  EXPECT_FALSE(check_updates(before, now, 21, 20, 1e-12));
}

// Fifty steps of AdamW on bf16 weights near 1, of which half a unit in the last place is 2^-9.
struct SampledTwice {
  WeightSample before, now;
};
SampledTwice train_bf16(bool masters, double lr) {
  Tensor weights = full({40}, 1.25, DType::bf16);
  weights.set_requires_grad(true);
  weights.set_grad_dtype(DType::f32);
  optim::AdamOptions options{.lr = lr, .weight_decay = 0};
  options.master.masters = masters;
  optim::AdamW optimizer({weights}, options);
  const std::vector<std::pair<std::string, Tensor>> named{{"weights", weights}};
  SampledTwice result{.before = sample_weights(optimizer, named)};
  for (int i = 0; i < 50; ++i) {
    optimizer.zero_grad();
    sum(weights * 3.0).backward();
    optimizer.step();
  }
  result.now = sample_weights(optimizer, named);
  return result;
}

TEST(WeightSample, SeesUpdatesThatAreRoundedAway) {
  const SampledTwice lost = train_bf16(false, 1e-3), kept = train_bf16(true, 1e-3),
                     large = train_bf16(false, 1e-2);
  ASSERT_EQ(lost.before.parameters.size(), 1u);
  EXPECT_EQ(lost.before.parameters[0].values.size(), 32u);
  EXPECT_TRUE(check_updates(lost.before, lost.now, 50, 50, 1e-3));
  EXPECT_FALSE(check_updates(kept.before, kept.now, 50, 50, 1e-3));
  EXPECT_FALSE(check_updates(large.before, large.now, 50, 50, 1e-2));
}

TEST(WeightSample, SeesARateThatIsTooLowForTheRun) {
  const WeightSample sample{{{"weight", {0.02, -0.01, 0, 0, 0.03}}, {"bias", {0, 0, 0}}}};
  const auto alarm = check_learning_rate(sample, 20, 1e-9, 60);
  ASSERT_TRUE(alarm);
  EXPECT_EQ(alarm->cause, Cause::stalled);
  EXPECT_EQ(to_text(*alarm),
            "stalled weights: all 60 updates together change a weight of median size by at most "
            "3e-06 of it; raise --lr (now at most 1e-09)");
  EXPECT_FALSE(check_learning_rate(sample, 20, 1e-7, 60));  // fine-tuning, most cautiously
  EXPECT_FALSE(check_learning_rate(sample, 20, 1e-9, 100'000));
  EXPECT_FALSE(check_learning_rate({{{"bias", {0, 0}}}}, 20, 1e-9, 60));
}

TEST(WeightSample, TakesElementsAtEqualDistances) {
  Tensor weights = arange(100, DType::f32);
  weights.set_requires_grad(true);
  Tensor frozen = arange(4, DType::f32);
  optim::AdamW optimizer({weights}, {});
  const WeightSample sample = sample_weights(optimizer, {{"weights", weights}, {"frozen", frozen}});
  ASSERT_EQ(sample.parameters.size(), 1u);
  EXPECT_EQ(sample.parameters[0].name, "weights");
  EXPECT_EQ(sample.parameters[0].values.size(), 32u);
  EXPECT_EQ(sample.parameters[0].values[31], 93);  // every third
}

}  // namespace
}  // namespace binade::train
