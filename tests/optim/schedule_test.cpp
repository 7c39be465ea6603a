#include "binade/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "binade/optim/one_cycle.h"
#include "binade/optim/plateau.h"
#include "binade/optim/sgd.h"
#include "support/error_of.h"

namespace binade::optim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Schedule, WarmupRisesToThePeak) {
  const Schedule schedule{.kind = ScheduleKind::constant, .peak = 8, .warmup = 4};
  EXPECT_EQ(schedule.at(0), 2);
  EXPECT_EQ(schedule.at(3), 8);
  EXPECT_EQ(schedule.at(1000000), 8);
}

TEST(Schedule, FallsToTheFinalRatioAndStays) {
  for (const ScheduleKind kind :
       {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::cooldown}) {
    const Schedule schedule{
        .kind = kind, .peak = 2, .warmup = 5, .total = 105, .final_ratio = 0.25, .cooldown = 20};
    schedule.check();
    EXPECT_EQ(schedule.at(5), 2) << name(kind);
    for (int64_t step = 6; step <= 120; ++step) {
      EXPECT_LE(schedule.at(step), schedule.at(step - 1)) << name(kind) << step;
      EXPECT_GE(schedule.at(step), 0.5) << name(kind) << step;
    }
    EXPECT_NEAR(schedule.at(105), 0.5, 1e-12) << name(kind);
    EXPECT_NEAR(schedule.at(5000), 0.5, 1e-12) << name(kind);
  }
}

TEST(Schedule, CooldownIsOneMinusRootOverTheLastSteps) {
  const Schedule schedule{
      .kind = ScheduleKind::cooldown, .peak = 1, .total = 100, .final_ratio = 0, .cooldown = 16};
  EXPECT_EQ(schedule.at(50), 1);
  EXPECT_EQ(schedule.at(84), 1);
  EXPECT_DOUBLE_EQ(schedule.at(88), 1 - std::sqrt(4.0 / 16));
  EXPECT_DOUBLE_EQ(schedule.at(93), 1 - std::sqrt(9.0 / 16));
  EXPECT_EQ(schedule.at(100), 0);
}

TEST(Schedule, AllWarmup) {
  const Schedule schedule{
      .kind = ScheduleKind::linear, .peak = 1, .warmup = 10, .total = 10, .final_ratio = 0.5};
  schedule.check();
  EXPECT_EQ(schedule.at(9), 1);
  EXPECT_TRUE(std::isfinite(schedule.at(10)));
}

TEST(Schedule, NamesGoBothWays) {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::linear,
                                  ScheduleKind::cosine, ScheduleKind::cooldown}) {
    EXPECT_EQ(parse_schedule(name(kind)), kind);
  }
  EXPECT_THAT(test::error_of([] { parse_schedule("cubic"); }),
              AllOf(HasSubstr("cosine"), HasSubstr("'cubic'")));
}

TEST(Schedule, RefusesImpossibleNumbers) {
  const auto message = [](Schedule schedule) {
    try {
      schedule.check();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message({.peak = 1, .total = 10}), "no error");
  EXPECT_THAT(message({.peak = -1, .total = 10}), HasSubstr("peak"));
  EXPECT_THAT(message({.peak = NAN, .total = 10}), HasSubstr("peak"));
  EXPECT_THAT(message({.peak = INFINITY, .total = 10}), HasSubstr("peak"));
  EXPECT_THAT(message({.total = 10, .final_ratio = -0.1}), HasSubstr("final_ratio"));
  EXPECT_THAT(message({.total = 10, .final_ratio = 1.1}), HasSubstr("final_ratio"));
  EXPECT_THAT(message({.total = 10, .final_ratio = NAN}), HasSubstr("final_ratio"));
  EXPECT_THAT(message({.warmup = 11, .total = 10}), HasSubstr("total"));
  EXPECT_THAT(message({.warmup = -1, .total = 10}), HasSubstr("warmup"));
  EXPECT_THAT(message({.kind = ScheduleKind::cooldown, .warmup = 6, .total = 10, .cooldown = 5}),
              HasSubstr("(11)"));
  EXPECT_THAT(message({.kind = ScheduleKind::cooldown, .total = 10, .cooldown = -5}),
              HasSubstr("cooldown"));
}

// One group follows a schedule, the other a function, both by the steps that were applied.
TEST(GroupRates, FollowTheirOwnSchedules) {
  const Tensor a = zeros({1}).set_requires_grad(), b = zeros({1}).set_requires_grad();
  SGD sgd(std::vector<SgdGroup>{{{a}, {.lr = 1}}, {{b}, {.lr = 1}}});
  const Schedule schedule{.kind = ScheduleKind::linear, .peak = 1, .total = 4, .final_ratio = 0};
  const RateFunction rates[] = {[&](int64_t step) { return schedule.at(step); },
                                [](int64_t step) { return 0.5 + static_cast<double>(step); }};
  for (int step = 0; step < 3; ++step) {
    set_rates(sgd, rates);
    a.set_grad(ones({1}));
    b.set_grad(ones({1}));
    sgd.step({.gradient_factor = {}, .skip = full({1}, step == 1 ? 1 : 0)});
  }
  EXPECT_FLOAT_EQ(static_cast<float>(a.item()), -(1 + 0.75f));
  EXPECT_FLOAT_EQ(static_cast<float>(b.item()), -(0.5f + 1.5f));
  EXPECT_THAT(test::error_of([&] {
                set_rates(sgd, {rates, 1});
              }),
              AllOf(HasSubstr("set_rates"), HasSubstr("one per group (2)")));
}

TEST(OneCycle, RefusesImpossibleNumbers) {
  EXPECT_THROW((OneCycle{.total = 0}.check()), Error);
  EXPECT_THROW((OneCycle{.max_lr = -1, .total = 5}.check()), Error);
  EXPECT_THROW((OneCycle{.total = 5, .rising = 1.5}.check()), Error);
  EXPECT_THROW((OneCycle{.total = 5, .rising = 0.6, .three_phases = true}.check()), Error);
  EXPECT_THAT(
      test::error_of([] { OneCycle{.total = 5, .rising = 0.6, .three_phases = true}.check(); }),
      HasSubstr("expected 0 to 0.5 with three phases, found 0.6"));
  EXPECT_NO_THROW((OneCycle{.total = 5, .rising = 0.6}.check()));
  EXPECT_NO_THROW((OneCycle{.total = 5, .rising = 0.5, .three_phases = true}.check()));
  EXPECT_THROW((OneCycle{.total = 5, .initial_divisor = 0}.check()), Error);
}

TEST(OneCycle, IsFiniteAtAnyLength) {
  for (const bool three : {false, true}) {
    for (int64_t total = 1; total < 8; ++total) {
      for (const double rising : {0.0, 0.25, 0.5}) {
        const OneCycle cycle{.max_lr = 1, .total = total, .rising = rising, .three_phases = three};
        for (int64_t step = 0; step <= total; ++step) {
          EXPECT_GE(cycle.at(step), 0);
          EXPECT_LE(cycle.at(step), 1);
        }
      }
    }
  }
}

// After a metric of 10, what is better by a threshold of 0.5 lies beyond these.
TEST(ReduceOnPlateau, ThresholdsAreRelativeOrAbsoluteInBothDirections) {
  using Better = PlateauOptions::Better;
  using Threshold = PlateauOptions::Threshold;
  struct Expected {
    Better better;
    Threshold kind;
    double bound, beyond;
  };
  for (const Expected& e : {Expected{Better::smaller, Threshold::relative, 5, 4.99},
                            Expected{Better::smaller, Threshold::absolute, 9.5, 9.49},
                            Expected{Better::larger, Threshold::relative, 15, 15.01},
                            Expected{Better::larger, Threshold::absolute, 10.5, 10.51}}) {
    SGD sgd({zeros({1}).set_requires_grad()}, {.lr = 1});
    ReduceOnPlateau plateau(sgd, {.better = e.better,
                                  .factor = 0.5,
                                  .patience = 0,
                                  .threshold = 0.5,
                                  .threshold_kind = e.kind});
    plateau.step(10);
    plateau.step(e.beyond);
    EXPECT_EQ(sgd.lr(), 1) << e.beyond;
    EXPECT_EQ(plateau.best(), e.beyond);
    plateau.load_state({{"best", 10}, {"bad", 0}, {"cooling", 0}});
    plateau.step(e.bound);
    EXPECT_EQ(sgd.lr(), 0.5) << e.bound;
    EXPECT_EQ(plateau.best(), 10);
  }
}

TEST(ReduceOnPlateau, ReducesAllGroups) {
  const Tensor a = zeros({1}).set_requires_grad(), b = zeros({1}).set_requires_grad();
  SGD sgd(std::vector<SgdGroup>{{{a}, {.lr = 1}}, {{b}, {.lr = 0.1}}});
  ReduceOnPlateau plateau(sgd, {.factor = 0.5, .patience = 1, .min_lr = 0.08});
  for (int i = 0; i < 4; ++i) plateau.step(3);
  EXPECT_DOUBLE_EQ(sgd.lr(0), 0.5);
  EXPECT_DOUBLE_EQ(sgd.lr(1), 0.08);
  EXPECT_EQ(plateau.best(), 3);
  EXPECT_THROW(ReduceOnPlateau(sgd, {.factor = 1}), Error);
  EXPECT_THROW(plateau.load_state({}), Error);
}

}  // namespace
}  // namespace binade::optim
