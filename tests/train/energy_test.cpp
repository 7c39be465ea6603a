#include "binade/train/energy.h"

#include <gtest/gtest.h>

namespace binade::train {
namespace {

TEST(EnergyMeter, DividesTheCounterByTheTokensSinceItsFirstReading) {
  double counter = 1000;
  int readings = 0;
  EnergyMeter meter([&]() -> std::optional<double> {
    ++readings;
    return counter;
  });
  meter.add(100, 10);
  EXPECT_EQ(meter.joules_per_token(), std::nullopt) << "the counter's start says nothing";
  counter = 1030;
  meter.add(5, 10.5);
  EXPECT_EQ(readings, 1) << "not before the interval is over";
  meter.add(10, 11);
  EXPECT_DOUBLE_EQ(meter.joules_per_token().value(), 30.0 / 15);
  counter = 1090;
  meter.add(15, 12.5);
  EXPECT_DOUBLE_EQ(meter.joules_per_token().value(), 90.0 / 30);
  EXPECT_EQ(readings, 3);
}

TEST(EnergyMeter, AsksADeviceWithoutACounterOnce) {
  int readings = 0;
  EnergyMeter meter([&]() -> std::optional<double> {
    ++readings;
    return std::nullopt;
  });
  for (int i = 0; i < 5; ++i) meter.add(1, 10 * i);
  EXPECT_EQ(meter.joules_per_token(), std::nullopt);
  EXPECT_EQ(readings, 1);
}

}  // namespace
}  // namespace binade::train
