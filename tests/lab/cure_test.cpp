#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/module_path.h"
#include "binade/lab/diagnosis.h"
#include "lab/faults/table.h"

// Cures that must suit other batches than the one that failed.
namespace binade::lab {
namespace {

using autograd::ModuleScope;
using faults::constant, faults::f16_of, faults::nan;
using ::testing::HasSubstr;

// Two linear layers that overflow f16 at inputs of 300, and are far from it at 2.
struct Batches {
  Tensor weight = constant(30).set_requires_grad();

  std::function<Tensor(const Replay&)> of(double first, double second) const {
    return [this, first, second](const Replay& replay) {
      const amp::Autocast cast(replay.autocast({.enabled = true, .dtype = DType::f16}));
      Tensor loss;
      {
        const ModuleScope scope("first");
        loss = sum(linear(constant(first), weight));
      }
      const ModuleScope scope("second");
      return loss + sum(linear(constant(second), weight));
    };
  }
  DiagnosisInput input(const std::vector<std::pair<double, double>>& others) const {
    DiagnosisInput input{.loss = of(300, 1), .parameters = [this](const Replay&) {
                           return NamedTensors{{"first.weight", weight}};
                         }};
    for (const auto& [first, second] : others) input.others.push_back(of(first, second));
    return input;
  }
};

TEST(Cures, AreSmallWhereOtherBatchesNeedNoMore) {
  const Batches batches;
  const auto found = diagnose(batches.input({{1, 1}, {300, 2}}));
  ASSERT_TRUE(found && found->cure);
  ASSERT_EQ(found->cure->kept.size(), 1u);
  EXPECT_EQ(found->cure->kept[0].module, "first");
  EXPECT_EQ(found->cure->held, 3);
  EXPECT_EQ(found->cure->batches, 3);
  EXPECT_THAT(to_text(*found), HasSubstr("replayed with success on 3 of 3 batches:"));
}

TEST(Cures, HaveWhatOtherBatchesNeed) {
  const Batches batches;
  const auto found = diagnose(batches.input({{1, 1}, {1, 300}, {300, 300}}));
  ASSERT_TRUE(found && found->cure);
  ASSERT_EQ(found->cure->kept.size(), 2u);
  EXPECT_EQ(found->cure->kept[1].module, "second");
  EXPECT_EQ(found->cure->held, 4);
}

// 200 does not overflow yet, and soon may.
TEST(Cures, LeaveHeadroom) {
  const Batches batches;
  DiagnosisInput input = batches.input({{1, 1}});
  input.loss = batches.of(300, 200);
  const auto found = diagnose(input);
  ASSERT_TRUE(found && found->cure);
  ASSERT_EQ(found->cure->kept.size(), 2u);
  EXPECT_EQ(found->cure->kept[1].module, "second");
}

// What f16 does not hold becomes 0 in the activation here, and may not in another batch. The
// gradient of x, zeros times an infinite weight, tells of it.
TEST(Cures, LeaveHeadroomBehindWhatF16DoesNotHold) {
  const Tensor weight = constant(1e5).set_requires_grad(), x = constant(-300).set_requires_grad();
  const auto loss = [&](const Replay& replay) {
    const amp::Autocast cast(replay.autocast({.enabled = true, .dtype = DType::f16}));
    Tensor hidden;
    {
      const ModuleScope scope("block.up");
      hidden = relu(linear(x, weight));
    }
    const ModuleScope scope("block.down");
    return sum(linear(hidden, constant(1, {4, 4})));
  };
  DiagnosisInput input{.loss = loss, .parameters = [&](const Replay&) {
                         return NamedTensors{{"block.up.weight", weight}, {"x", x}};
                       }};
  input.others = {loss};
  const auto found = diagnose(input);
  ASSERT_TRUE(found && found->cure);
  const auto modules = [&] {
    std::vector<std::string> all;
    for (const KeptInF32& one : found->cure->kept) all.push_back(one.module);
    return all;
  }();
  EXPECT_THAT(modules, ::testing::Contains("block.up"));
  EXPECT_THAT(modules, ::testing::Contains("block.down"));
}

TEST(Cures, SayOnHowManyBatchesTheyHeld) {
  const Batches batches;
  const auto found = diagnose(batches.input({{1, 1}, {nan, 1}, {1, nan}}));
  ASSERT_TRUE(found && found->cure);
  EXPECT_EQ(found->cure->held, 2);
  EXPECT_THAT(to_text(*found), HasSubstr("on 2 of 4 batches"));
}

// An f16 gradient of `factor` times the scale.
std::function<Tensor(const Replay&)> scaled_by(const Tensor& weight, double factor) {
  return [&weight, factor](const Replay& replay) {
    const amp::Autocast cast_to(replay.autocast({.enabled = true, .dtype = DType::f16}));
    return sum(cast(f16_of(weight), DType::f32)) * factor;
  };
}

// 65504 / 100 allows 512, 65504 / 900 only 64, and batches to come may allow less.
TEST(Cures, TakeAScaleThatEveryBatchAllows) {
  const Tensor weight = constant(1, {1}).set_requires_grad();
  const auto parameters = [&](const Replay&) { return NamedTensors{{"w", weight}}; };
  const auto found = diagnose({.loss = scaled_by(weight, 100),
                               .parameters = parameters,
                               .scale = 65536,
                               .others = {scaled_by(weight, 3), scaled_by(weight, 900)}});
  ASSERT_TRUE(found && found->cure && found->cure->scale);
  EXPECT_EQ(found->largest_scale, 512);
  EXPECT_EQ(*found->cure->scale, 16);
  EXPECT_EQ(found->cure->held, 3);
}

// Gradients below f16: not the smallest scale that brings them back, but a quarter of the largest
// that fits.
TEST(Cures, TakeTheScaleWhereAScalerSettles) {
  const Tensor weight = constant(1, {1}).set_requires_grad();
  const auto parameters = [&](const Replay&) { return NamedTensors{{"w", weight}}; };
  const auto found = diagnose({.loss = scaled_by(weight, 1e-9),
                               .parameters = parameters,
                               .scale = 1,
                               .others = {scaled_by(weight, 3e-4)}});
  ASSERT_TRUE(found && found->cure && found->cure->scale);
  EXPECT_EQ(found->verdict, Verdict::underflow);
  EXPECT_EQ(*found->cure->scale, 0x1p25);  // 65504 / 3e-4 is 2^27.7
  EXPECT_EQ(found->cure->held, 2);
}

}  // namespace
}  // namespace binade::lab
