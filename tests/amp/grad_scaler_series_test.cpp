#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/amp/grad_scaler.h"
#include "binade/binade.h"

// A scaler over series of clean and overflowing steps.
namespace binade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double overflow = std::numeric_limits<double>::infinity();

// Steps of f(w) = factor * w, one for each factor; the scale after each.
class Series {
 public:
  explicit Series(const amp::GradScalerOptions& options) : scaler(options) {}

  std::vector<double> scales(std::initializer_list<double> factors) {
    std::vector<double> result;
    for (const double factor : factors) {
      sgd.zero_grad();
      scaler.scale(sum(w * factor)).backward();
      scaler.step(sgd);
      scaler.update();
      result.push_back(scaler.get_scale());
    }
    return result;
  }

  Tensor w = ones({2}).set_requires_grad();
  optim::SGD sgd{{w}, {.lr = 0}};
  amp::GradScaler scaler;
};

TEST(GradScalerSeries, GrowthRestoresTheHysteresis) {
  Series series({.init_scale = 8, .growth_interval = 2, .hysteresis = 2});
  EXPECT_THAT(series.scales({overflow, 1, 1, overflow, overflow}), ElementsAre(8, 8, 16, 16, 8));
}

TEST(GradScalerSeries, ACleanStepEndsARowOfOverflows) {
  // Two in a row would be retested at scale 1.
  Series retested({.init_scale = 64, .retest_after = 2});
  EXPECT_THAT(retested.scales({overflow, 1, overflow, 1, overflow}),
              ElementsAre(32, 32, 16, 16, 8));
  EXPECT_THAT(retested.scales({overflow}), ElementsAre(1));  // the second after the last clean one
  Series limited({.init_scale = 64, .skip_budget = 2});
  EXPECT_NO_THROW(limited.scales({overflow, 1, overflow, 1, overflow, 1}));
  EXPECT_EQ(limited.scaler.skipped_in_a_row(), 0);
  limited.scales({overflow});
  EXPECT_EQ(limited.scaler.skipped_in_a_row(), 1);
  EXPECT_THROW(limited.scales({overflow}), Error);
}

TEST(GradScalerSeries, ScalingGoesOnAfterARetest) {
  Series series({.init_scale = 64, .growth_interval = 2, .retest_after = 2});
  // The retest at scale 1 passes, the scale before it returns, and clean steps let it grow again.
  EXPECT_THAT(series.scales({overflow, overflow, 1, 1, 1}), ElementsAre(32, 1, 16, 16, 32));
}

TEST(GradScalerSeries, ARowOfOverflowsGoesOnAfterLoading) {
  Series first({.init_scale = 64, .retest_after = 3}),
      second({.init_scale = 64, .retest_after = 3});
  first.scales({overflow, 1, overflow, overflow});
  second.scaler.load_state(first.scaler.state());
  EXPECT_EQ(second.scaler.skipped_in_a_row(), 2);
  EXPECT_THAT(second.scales({overflow}), ElementsAre(1));
}

TEST(GradScalerReport, NamesTheFirstOfSeveralBadParameters) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 4; ++i) parameters.push_back(ones({2}).set_requires_grad());
  optim::SGD sgd(parameters, {.lr = 0.1});
  amp::GradScaler scaler({.init_scale = 4});
  scaler.scale(tensor(1.0));
  const double gradients[] = {1, overflow, std::nan(""), overflow};
  for (size_t i = 0; i < 4; ++i) parameters[i].set_grad(full({2}, gradients[i]));
  const amp::StepReport report = scaler.step(sgd);
  scaler.update();
  EXPECT_FALSE(report.applied());
  EXPECT_TRUE(report.bad_parameter().same_as(parameters[1]));
  EXPECT_EQ(report.scale(), 4);
  EXPECT_THAT(report.reason(), HasSubstr("at loss scale 4"));
}

// A factor that clips is applied by the step, enabled or not.
TEST(GradScalerStep, MultipliesGradientsByTheFactorItIsGiven) {
  for (const bool enabled : {true, false}) {
    const Tensor w = zeros({2}).set_requires_grad();
    optim::SGD sgd({w}, {.lr = 1});
    amp::GradScaler scaler({.enabled = enabled, .init_scale = 8});
    scaler.scale(sum(w * 3.0)).backward();
    scaler.unscale(sgd);
    scaler.step(sgd, full({1}, 0.25));
    scaler.update();
    EXPECT_THAT(to_vector(w), ElementsAre(-0.75, -0.75)) << enabled;
  }
}

}  // namespace
}  // namespace binade
