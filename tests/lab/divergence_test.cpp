#include "binade/lab/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace binade::lab {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

std::vector<StepRecord> steps(const std::vector<double>& losses,
                              const std::vector<double>& norms = {}) {
  std::vector<StepRecord> history;
  for (size_t i = 0; i < losses.size(); ++i) {
    history.emplace_back();
    history.back().loss = losses[i];
    history.back().weight_norm = i < norms.size() ? norms[i] : 0;
  }
  return history;
}

TEST(Divergence, ALossThatRisesIsASign) {
  EXPECT_EQ(signs_of_divergence(steps({5, 4, 3, 2, 2, 2, 2, 2, 3, 4, 5, 6, 7})),
            "the loss rose from 2 to 7 within 13 steps");
  EXPECT_EQ(signs_of_divergence(steps({7, 6, 5, 4, 3, 2, 2, 2, 2, 2})), "");
  // Non-finite losses are left out, but their steps count.
  EXPECT_EQ(signs_of_divergence(steps({2, 2, 2, 2, 2, 4, 4, 4, 4, 4, not_a_number, INFINITY})),
            "the loss rose from 2 to 4 within 12 steps");
}

// The medians of five steps: two spikes among them vanish, three do not.
TEST(Divergence, SpikesAreNoSign) {
  EXPECT_EQ(signs_of_divergence(steps({2, 2, 2, 2, 2, 2, 2, 2, 9, 9})), "");
  EXPECT_NE(signs_of_divergence(steps({2, 2, 2, 2, 2, 2, 2, 9, 9, 9})), "");
  // A low spike is no best loss.
  EXPECT_EQ(signs_of_divergence(steps({2, 2, 2, 0.1, 2, 2, 2, 2, 2, 2})), "");
}

// Half as much again, and half a nat more.
TEST(Divergence, ARiseIsRelativeAndAbsolute) {
  const auto rise = [](double from, double to) {
    std::vector<double> losses(5, from);
    losses.resize(10, to);
    return !signs_of_divergence(steps(losses)).empty();
  };
  EXPECT_TRUE(rise(2, 3));
  EXPECT_FALSE(rise(2, 2.99));
  EXPECT_TRUE(rise(0.25, 0.75));
  EXPECT_FALSE(rise(0.25, 0.74));
  EXPECT_FALSE(rise(4, 5.9));
}

TEST(Divergence, ShortHistoriesHaveShorterMedians) {
  EXPECT_EQ(signs_of_divergence({}), "");
  EXPECT_EQ(signs_of_divergence(steps({9})), "");
  EXPECT_EQ(signs_of_divergence(steps({1, 9})), "the loss rose from 1 to 9 within 2 steps");
  EXPECT_EQ(signs_of_divergence(steps({9, 1})), "");
}

// Ten times the first known norm.
TEST(Divergence, WeightsThatGrowAreASign) {
  const std::vector<double> flat(4, 2);
  EXPECT_EQ(signs_of_divergence(steps(flat, {0, 3, 12, 30})),
            "the norm of the weights grew from 3 to 30");
  EXPECT_EQ(signs_of_divergence(steps(flat, {0, 3, 12, 29.9})), "");
  EXPECT_EQ(signs_of_divergence(steps(flat, {3, 30, not_a_number, 0})),
            "the norm of the weights grew from 3 to 30");
  EXPECT_EQ(signs_of_divergence(steps(flat, {0, 0, 0, 0})), "");
}

TEST(Divergence, BothSignsAreTold) {
  EXPECT_EQ(signs_of_divergence(steps({1, 9}, {1, 20})),
            "the loss rose from 1 to 9 within 2 steps; the norm of the weights grew from 1 to 20");
}

}  // namespace
}  // namespace binade::lab
