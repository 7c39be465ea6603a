#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "formats/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/rows/vector_math_test.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Below foreach_target.h, which this relies on.
#include "binade/backend/cpu/rows/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

// f of each x, in place.
template <class F>
void map(std::vector<float>& x, F f) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), size = x.size();
  x.resize((size + lanes - 1) / lanes * lanes);
  for (size_t i = 0; i < x.size(); i += lanes)
    hn::StoreU(f(d, hn::LoadU(d, x.data() + i)), d, x.data() + i);
  x.resize(size);
}

void powers_of_e(std::vector<float>& x) {
  map(x, [](auto d, auto v) HWY_ATTR { return fast_exp(d, v); });
}
void powers_of_2(std::vector<float>& x) {
  map(x, [](auto d, auto v) HWY_ATTR { return fast_exp2(d, v); });
}

}  // namespace
}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(powers_of_e);
HWY_EXPORT(powers_of_2);

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float least_normal = std::numeric_limits<float>::min();

enum class Power { of_e, of_2 };

std::vector<float> powers(Power power, std::vector<float> x) {
  if (power == Power::of_2) {
    HWY_DYNAMIC_DISPATCH(powers_of_2)(x);
  } else {
    HWY_DYNAMIC_DISPATCH(powers_of_e)(x);
  }
  return x;
}

// Evenly from `first` to `last`, and as close to 0 as floats come.
std::vector<float> arguments(double first, double last) {
  constexpr int count = 400'000;
  std::vector<float> x;
  for (int i = 0; i <= count; ++i)
    x.push_back(static_cast<float>(first + (last - first) * i / count));
  for (float tiny = 0.5f; tiny > 0; tiny /= 2) {
    x.push_back(tiny);
    x.push_back(-tiny);
  }
  return x;
}

// Both promise two units in the last place.
void expect_close(Power power, double first, double last) {
  const std::vector<float> x = arguments(first, last), y = powers(power, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = power == Power::of_2 ? std::exp2(double{x[i]}) : std::exp(double{x[i]});
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(y[i] - exact) / unit);
    if (worst > 2) FAIL() << x[i] << ": expected " << exact << ", found " << y[i];
  }
  EXPECT_GT(worst, 0.5);  // nothing this short rounds correctly everywhere
}

TEST(CpuVectorMath, FastPowersAreCloseWhereTheyAreNormal) {
  formats::testing::for_each_target([] {
    expect_close(Power::of_2, -126, 127);
    expect_close(Power::of_e, -87.33, 88.37);
  });
}

TEST(CpuVectorMath, FastExp2IsExactAtWholeNumbers) {
  formats::testing::for_each_target([] {
    std::vector<float> x;
    for (int n = -126; n <= 126; ++n) x.push_back(static_cast<float>(n));
    const std::vector<float> y = powers(Power::of_2, x);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], std::exp2(x[i])) << x[i];
  });
}

TEST(CpuVectorMath, FastPowersEndInZeroAndKeepNan) {
  formats::testing::for_each_target([] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const Power power : {Power::of_2, Power::of_e}) {
      const std::vector<float> y = powers(
          power, {-inf, -std::numeric_limits<float>::max(), -1e6f, -150, nan, -nan, 0, -0.f});
      for (int i = 0; i < 4; ++i) EXPECT_EQ(y[i], 0) << i;
      EXPECT_TRUE(std::isnan(y[4]));
      EXPECT_TRUE(std::isnan(y[5]));
      EXPECT_EQ(y[6], 1);
      EXPECT_EQ(y[7], 1);
    }
    // On both sides of the smallest normal number.
    const std::vector<float> y = powers(Power::of_2, {-126, std::nextafter(-126.0f, -inf)});
    EXPECT_EQ(y[0], least_normal);
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(powers(Power::of_e, {inf, 1000}), (std::vector<float>{inf, inf}));
  });
}

}  // namespace
}  // namespace binade::backend::cpu
#endif
