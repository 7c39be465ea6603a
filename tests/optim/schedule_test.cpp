#include "binade/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/base/error.h"

namespace binade::optim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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
  EXPECT_THAT([] { parse_schedule("cubic"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cosine"), HasSubstr("'cubic'"))));
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

}  // namespace
}  // namespace binade::optim
