#include "binade/base/poison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace binade {
namespace {

TEST(Poison, IsOnInTests) { EXPECT_NE(poison(), Poison::none); }

TEST(Poison, IsNaNInFloatsAndMinusOneInIntegers) {
  std::vector<char> bytes(64, 0);
  fill_with_poison(bytes.data(), 32);
  float f;
  double d;
  int64_t i;
  std::memcpy(&f, bytes.data(), sizeof f);
  std::memcpy(&d, bytes.data(), sizeof d);
  std::memcpy(&i, bytes.data() + 24, sizeof i);
  EXPECT_TRUE(std::isnan(f));
  EXPECT_TRUE(std::isnan(d));
  EXPECT_EQ(i, -1);
  EXPECT_EQ(bytes[32], 0);
  fill_with_poison(nullptr, 0);
}

}  // namespace
}  // namespace binade
