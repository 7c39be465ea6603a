#include "binade/io/tensor_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/base/random.h"
#include "binade/formats/number.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

template <class T>
Statistics of(std::string_view format, const std::vector<T>& values) {
  return statistics_of(format, std::as_bytes(std::span(values)));
}

TEST(Statistics, CountsEveryKindOfNumber) {
  const float inf = std::numeric_limits<float>::infinity();
  const Statistics s = of<float>("F32", {0, -0.0F, 1, -3, 0x1p-140F, inf, -inf, NAN, 0.75F});
  EXPECT_EQ(s.count, 9);
  EXPECT_EQ(s.zeros, 2);
  EXPECT_EQ(s.subnormals, 1);
  EXPECT_EQ(s.infinities, 2);
  EXPECT_EQ(s.nans, 1);
  EXPECT_EQ(s.min, -3);
  EXPECT_EQ(s.max, 1);
  EXPECT_THAT(s.exponents, ElementsAre(Pair(-140, 1), Pair(-1, 1), Pair(0, 1), Pair(1, 1)));
}

TEST(Statistics, SubnormalsAreThoseOfTheFormat) {
  EXPECT_EQ(of<f16>("F16", {f16(0x1p-15F), f16(0x1p-14F)}).subnormals, 1);
  EXPECT_EQ(of<bf16>("BF16", {bf16(0x1p-15F), bf16(0x1p-130F)}).subnormals, 1);
  EXPECT_EQ(of<e4m3>("F8_E4M3", {e4m3(0x1p-7F), e4m3(0x1p-6F), e4m3(NAN)}).subnormals, 1);
  EXPECT_EQ(of<e4m3>("F8_E4M3", {e4m3(NAN)}).nans, 1);
  EXPECT_EQ(of<double>("F64", {0x1p-1023, 0x1p-1022}).subnormals, 1);
  EXPECT_THAT(of<double>("F64", {0x1p-1023}).exponents, ElementsAre(Pair(-1023, 1)));
}

TEST(Statistics, KnowsIntegers) {
  const Statistics s = of<int32_t>("I32", {-4, 0, 2, 6});
  EXPECT_EQ(s.min, -4);
  EXPECT_EQ(s.max, 6);
  EXPECT_EQ(s.mean, 1);
  EXPECT_EQ(s.deviation, std::sqrt(13.0));
  EXPECT_EQ(s.zeros, 1);
  EXPECT_TRUE(s.exponents.empty());
  EXPECT_EQ(of<uint64_t>("U64", {1, 3}).mean, 2);
}

TEST(Statistics, NothingHasNone) {
  const Statistics s = of<float>("F32", {});
  EXPECT_EQ(s.count, 0);
  EXPECT_EQ(s.deviation, 0);
  EXPECT_EQ(of<float>("F32", {NAN}).mean, 0);
}

// Values around a mean a thousand times their spread: a sum of squares in f32 would lose it.
TEST(Statistics, IsExactEnoughAndTheSameForAnyThreads) {
  std::vector<float> values;
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < 3'000'017; ++i) {
    values.push_back(1000 + random::uniform(3, 0, i));
    sum += static_cast<double>(values.back());
  }
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
  const int before = threads();
  set_threads(1);
  const Statistics one = of("F32", values);
  set_threads(4);
  const Statistics four = of("F32", values);
  set_threads(before);
  EXPECT_NEAR(one.mean, mean, 1e-9);
  EXPECT_NEAR(one.deviation, deviation, 1e-9);
  EXPECT_EQ(one.mean, four.mean);
  EXPECT_EQ(one.deviation, four.deviation);
  EXPECT_EQ(one.exponents, four.exponents);
}

TEST(Statistics, OfTwoSetsAreThoseOfBoth) {
  Statistics a = of<float>("F32", {1, 2, 3});
  a.add(of<float>("F32", {-10, 4, 0, NAN}));
  const Statistics both = of<float>("F32", {1, 2, 3, -10, 4, 0, NAN});
  EXPECT_EQ(a.count, both.count);
  EXPECT_EQ(a.min, both.min);
  EXPECT_EQ(a.max, both.max);
  EXPECT_NEAR(a.mean, both.mean, 1e-12);
  EXPECT_NEAR(a.deviation, both.deviation, 1e-12);
  EXPECT_EQ(a.exponents, both.exponents);
}

TEST(Statistics, ReadsBytesAtAnyAddress) {
  std::vector<std::byte> bytes(9);
  const float values[] = {1.5F, -2.5F};
  std::memcpy(bytes.data() + 1, values, 8);
  EXPECT_EQ(statistics_of("F32", std::span(bytes).subspan(1)).mean, -0.5);
}

TEST(Statistics, RefusesUnknownFormats) { EXPECT_THROW(of<float>("F13", {1}), Error); }

}  // namespace
}  // namespace binade::io
