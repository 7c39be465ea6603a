#include "binade/formats/dynamic_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/base/random.h"

namespace binade::formats {
namespace {

constexpr DynamicSign both[] = {DynamicSign::either, DynamicSign::positive};

struct Quantized {
  std::vector<uint8_t> codes;
  std::vector<float> scales, values;
};

Quantized round_trip(const std::vector<float>& values, DynamicSign sign) {
  const auto n = static_cast<int64_t>(values.size());
  Quantized q{std::vector<uint8_t>(values.size()),
              std::vector<float>((values.size() + dynamic_block - 1) / dynamic_block),
              std::vector<float>(values.size())};
  encode_dynamic(values.data(), n, {q.codes.data(), q.scales.data(), sign});
  decode_dynamic({q.codes.data(), q.scales.data(), sign}, q.values.data(), n);
  return q;
}

// Numbers that bitsandbytes' create_dynamic_map gives: (0.1 + 1) / 2 in each decade where it has
// one number, the two smallest and largest otherwise.
TEST(DynamicCode, HasBitsandbytesNumbers) {
  const auto numbers = dynamic_codes(DynamicSign::either);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  EXPECT_EQ(numbers[127], 0);
  EXPECT_FLOAT_EQ(numbers[128], 5.5e-7f);
  EXPECT_FLOAT_EQ(numbers[126], -5.5e-7f);
  EXPECT_FLOAT_EQ(numbers[129], 3.25e-6f);
  EXPECT_FLOAT_EQ(numbers[130], 7.75e-6f);
  EXPECT_FLOAT_EQ(numbers[0], -0.99296875f);  // 1 - 0.9 / 64 / 2
  EXPECT_FLOAT_EQ(numbers[254], 0.99296875f);
  EXPECT_EQ(numbers[255], 1);
  const auto positive = dynamic_codes(DynamicSign::positive);
  EXPECT_TRUE(std::is_sorted(positive.begin(), positive.end()));
  EXPECT_EQ(positive[0], 0);
  EXPECT_FLOAT_EQ(positive[1], 3.25e-7f);
  EXPECT_FLOAT_EQ(positive[2], 7.75e-7f);
  EXPECT_FLOAT_EQ(positive[254], 0.996484375f);
  EXPECT_EQ(positive[255], 1);
}

TEST(DynamicCode, TakesTheNearestNumber) {
  for (const DynamicSign sign : both) {
    const auto numbers = dynamic_codes(sign);
    std::vector<float> values(dynamic_block);
    for (uint64_t round = 0; round < 200; ++round) {
      values[0] = 1;  // the scale
      for (size_t i = 1; i < values.size(); ++i) {
        const float size = std::pow(10.0f, -8 * random::uniform(1, round, 2 * i));
        const float sign_bit = random::uniform(1, round, 2 * i + 1) < 0.5f ? -1.0f : 1.0f;
        values[i] = sign == DynamicSign::either ? sign_bit * size : size;
      }
      const Quantized q = round_trip(values, sign);
      for (size_t i = 0; i < values.size(); ++i) {
        float nearest = std::numeric_limits<float>::infinity();
        for (const float number : numbers) {
          if (sign == DynamicSign::positive && number == 0) continue;
          nearest = std::min(nearest, std::fabs(number - values[i]));
        }
        EXPECT_LE(std::fabs(q.values[i] - values[i]), nearest * (1 + 1e-6f)) << values[i];
      }
    }
  }
}

TEST(DynamicCode, KeepsItsOwnNumbers) {
  for (const DynamicSign sign : both) {
    const auto numbers = dynamic_codes(sign);
    std::vector<float> values(numbers.begin(), numbers.end());
    for (float& value : values) value *= 0.25f;
    const Quantized q = round_trip(values, sign);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(q.codes[i], i);
    EXPECT_EQ(q.scales[0], 0.25f);
    EXPECT_EQ(q.values, values);
  }
}

TEST(DynamicCode, ScalesEachBlock) {
  std::vector<float> values(2 * dynamic_block + 3, 1e-20f);
  values[5] = 100;
  const Quantized q = round_trip(values, DynamicSign::either);
  ASSERT_EQ(q.scales.size(), 3u);
  EXPECT_EQ(q.scales[0], 100);
  EXPECT_EQ(q.scales[1], 1e-20f);
  EXPECT_EQ(q.values[0], 0);
  EXPECT_EQ(q.values[dynamic_block], 1e-20f);
  EXPECT_EQ(q.values.back(), 1e-20f);
}

TEST(DynamicCode, KeepsPositiveValuesPositive) {
  std::vector<float> values(dynamic_block, 0);
  values[0] = 1;
  values[1] = 1e-30f;
  EXPECT_GT(round_trip(values, DynamicSign::positive).values[1], 0);
  EXPECT_EQ(round_trip(values, DynamicSign::positive).values[2], 0);
  EXPECT_EQ(round_trip(values, DynamicSign::either).values[1], 0);
}

TEST(DynamicCode, KeepsExtremeSizes) {
  constexpr float least = std::numeric_limits<float>::denorm_min(),
                  most = std::numeric_limits<float>::max();
  EXPECT_EQ(round_trip({least, 0}, DynamicSign::either).values[0], least);
  EXPECT_EQ(round_trip({most, 0}, DynamicSign::either).values[0], most);
  EXPECT_EQ(round_trip({0, 0}, DynamicSign::either).values, (std::vector<float>{0, 0}));
}

TEST(DynamicCode, ShowsNonFiniteValues) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(2 * dynamic_block, 1);
    values[dynamic_block + 7] = bad;
    const Quantized q = round_trip(values, DynamicSign::either);
    EXPECT_EQ(q.values[0], 1);
    EXPECT_TRUE(std::isnan(q.values[dynamic_block + 7]));
  }
}

}  // namespace
}  // namespace binade::formats
