#include "binade/formats/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "formats/reference.h"

namespace binade::formats {
namespace {

using testing::from_bits;
using testing::Reference;
using testing::reference;
using testing::to_bits;

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Format, LimitsDeriveFromTheDescription) {
  EXPECT_EQ(spec::f32.max(), static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(spec::tf32.max(), (2 - 0x1p-10) * 0x1p127);
  EXPECT_EQ(spec::f16.max(), 65504);
  EXPECT_EQ(spec::bf16.max(), (2 - 0x1p-7) * 0x1p127);
  EXPECT_EQ(spec::e4m3.max(), 448);
  EXPECT_EQ(spec::e4m3fnuz.max(), 240);
  EXPECT_EQ(spec::e5m2.max(), 57344);
  EXPECT_EQ(spec::e8m0.max(), 0x1p127);
  EXPECT_EQ(spec::e2m1.max(), 6);

  EXPECT_EQ(spec::f32.min_normal(), 0x1p-126);
  EXPECT_EQ(spec::tf32.min_normal(), 0x1p-126);
  EXPECT_EQ(spec::f16.min_normal(), 0x1p-14);
  EXPECT_EQ(spec::bf16.min_normal(), 0x1p-126);
  EXPECT_EQ(spec::e4m3.min_normal(), 0x1p-6);
  EXPECT_EQ(spec::e4m3fnuz.min_normal(), 0x1p-7);
  EXPECT_EQ(spec::e5m2.min_normal(), 0x1p-14);
  EXPECT_EQ(spec::e8m0.min_normal(), 0x1p-127);
  EXPECT_EQ(spec::e2m1.min_normal(), 1);

  EXPECT_EQ(spec::f32.min_subnormal(), 0x1p-149);
  EXPECT_EQ(spec::f16.min_subnormal(), 0x1p-24);
  EXPECT_EQ(spec::bf16.min_subnormal(), 0x1p-133);
  EXPECT_EQ(spec::e4m3.min_subnormal(), 0x1p-9);
  EXPECT_EQ(spec::e4m3fnuz.min_subnormal(), 0x1p-10);
  EXPECT_EQ(spec::e5m2.min_subnormal(), 0x1p-16);
  EXPECT_EQ(spec::e8m0.min_subnormal(), 0);
  EXPECT_EQ(spec::e2m1.min_subnormal(), 0.5);
}

TEST(Format, F64AgreesWithTheLanguage) {
  using Limits = std::numeric_limits<double>;
  EXPECT_EQ(spec::f64.bits(), 64);
  EXPECT_EQ(spec::f64.max(), Limits::max());
  EXPECT_EQ(spec::f64.min_normal(), Limits::min());
  EXPECT_EQ(spec::f64.min_subnormal(), Limits::denorm_min());
  EXPECT_EQ(spec::f64.epsilon(), Limits::epsilon());
}

TEST(Format, WidthsBiasesAndPrecision) {
  const int bits[] = {32, 19, 16, 16, 8, 8, 8, 8, 4};
  const int biases[] = {127, 127, 15, 127, 7, 8, 15, 127, 1};
  const double digits[] = {7.22, 3.31, 3.31, 2.41, 1.20, 1.20, 0.90, 0.30, 0.60};
  for (size_t i = 0; i < std::size(all); ++i) {
    EXPECT_EQ(all[i]->bits(), bits[i]) << all[i]->name;
    EXPECT_EQ(all[i]->bias(), biases[i]) << all[i]->name;
    EXPECT_NEAR(all[i]->decimal_digits(), digits[i], 0.005) << all[i]->name;
  }
  EXPECT_EQ(spec::f16.epsilon(), 0x1p-10);
  EXPECT_EQ(spec::bf16.epsilon(), 0x1p-7);
  EXPECT_EQ(spec::e4m3.epsilon(), 0x1p-3);
  EXPECT_EQ(spec::e5m2.epsilon(), 0x1p-2);
}

TEST(Format, SpecialValues) {
  EXPECT_TRUE(spec::f16.has_infinity() && spec::bf16.has_infinity() && spec::e5m2.has_infinity());
  EXPECT_FALSE(spec::e4m3.has_infinity() || spec::e4m3fnuz.has_infinity());
  EXPECT_FALSE(spec::e8m0.has_infinity() || spec::e8m0.has_zero() || spec::e8m0.is_signed());
  EXPECT_FALSE(spec::e2m1.has_nan());
  EXPECT_FALSE(spec::e4m3fnuz.has_negative_zero());
  EXPECT_EQ(spec::e4m3.nan_code(), 0x7fu);
  EXPECT_EQ(spec::e4m3fnuz.nan_code(), 0x80u);
  EXPECT_EQ(spec::e8m0.nan_code(), 0xffu);
  EXPECT_EQ(spec::f16.infinity_code(), 0x7c00u);
}

TEST(Format, ConversionsAreConstantExpressions) {
  static_assert(decode<spec::e4m3>(0x7e) == 448);
  static_assert(encode<spec::f16>(65504) == 0x7bff);
  static_assert(encode<spec::bf16>(1.0f) == 0x3f80);
  static_assert(round_tf32(1.0f + 0x1p-11f) == 1.0f);
  static_assert(encode<spec::f32>(1.5f) == 0x3fc00000);
}

template <class T>
class FormatOfType : public ::testing::Test {};
using Types = ::testing::Types<f16, bf16, e4m3, e4m3fnuz, e5m2, e8m0>;
TYPED_TEST_SUITE(FormatOfType, Types);

TYPED_TEST(FormatOfType, DecodesEveryCode) {
  constexpr const Format& format = format_of<TypeParam>;
  const Reference& r = reference<TypeParam>();
  const uint32_t sign = r.is_scale ? 0 : 1u << (r.bits - 1);
  for (uint32_t code = 0; code < 1u << r.bits; ++code) {
    const float value = decode<format>(code);
    const uint32_t magnitude = code & ~sign;
    if (r.is_nan(code)) {
      ASSERT_TRUE(std::isnan(value)) << code;
    } else if (r.has_infinity && magnitude == r.numbers) {
      ASSERT_EQ(value, code & sign ? -infinity : infinity) << code;
    } else {
      ASSERT_EQ(value, code & sign ? -r.values[magnitude] : r.values[magnitude]) << code;
      ASSERT_EQ(std::signbit(value), (code & sign) != 0) << code;
    }
  }
}

TYPED_TEST(FormatOfType, EveryNumberRoundTrips) {
  constexpr const Format& format = format_of<TypeParam>;
  const Reference& r = reference<TypeParam>();
  for (uint32_t code = 0; code < 1u << r.bits; ++code) {
    const float value = decode<format>(code);
    for (Rounding rounding :
         {Rounding::nearest_even, Rounding::toward_zero, Rounding::stochastic}) {
      const uint32_t again = encode<format>(value, rounding, Overflow::special, 0xffffffff);
      if (r.is_nan(code)) {
        ASSERT_TRUE(r.is_nan(again)) << code;
      } else {
        ASSERT_EQ(again, code);
      }
    }
  }
}

// Checks every mode on `inputs` against the reference, and NaN against its definition.
template <class T>
void expect_encodes_like_reference(const std::vector<float>& inputs) {
  constexpr const Format& format = format_of<T>;
  const Reference& r = reference<T>();
  for (Rounding rounding : {Rounding::nearest_even, Rounding::toward_zero}) {
    for (Overflow overflow : {Overflow::special, Overflow::saturate}) {
      uint32_t hint = 0;
      for (float x : inputs) {
        const uint32_t code = encode<format>(x, rounding, overflow);
        if (std::isnan(x)) {
          ASSERT_TRUE(r.is_nan(code)) << std::hex << to_bits(x) << " gave " << code;
          continue;
        }
        const uint32_t expected = r.encode(x, rounding, overflow, hint);
        hint = r.below(std::fabs(static_cast<double>(x)), hint);
        ASSERT_EQ(code, expected) << x << " = " << std::hex << to_bits(x) << " gave " << code
                                  << ", expected " << expected;
      }
    }
  }
}

TYPED_TEST(FormatOfType, EncodesLikeTheReference) {
  expect_encodes_like_reference<TypeParam>(testing::strided(4093));
}

TYPED_TEST(FormatOfType, EncodesLikeTheReferenceAroundEveryBoundary) {
  expect_encodes_like_reference<TypeParam>(testing::boundaries<TypeParam>());
}

// Only as many leading random bits matter as mantissa bits are dropped, so counting over all values
// of those bits gives the exact probability.
TYPED_TEST(FormatOfType, StochasticRoundingIsExactlyUnbiased) {
  constexpr const Format& format = format_of<TypeParam>;
  const Reference& r = reference<TypeParam>();
  const uint32_t codes[] = {0, 1, 2, r.numbers / 4, r.numbers / 2, r.numbers - 2};
  for (uint32_t code : codes) {
    const double low = r.values[code], high = r.values[code + 1];
    for (double fraction : {0.0, 0.25, 0.5, 0.8125, 0.9375}) {
      const double exact = low + fraction * (high - low);
      const float x = static_cast<float>(exact);
      ASSERT_EQ(x, exact);
      uint32_t rose = 0;
      constexpr uint32_t draws = 64;
      for (uint32_t draw = 0; draw < draws; ++draw) {
        const uint32_t random = draw * (0xffffffff / draws + 1);
        const uint32_t got = encode<format>(x, Rounding::stochastic, Overflow::special, random);
        ASSERT_TRUE(got == code || got == code + 1);
        rose += got - code;
      }
      EXPECT_EQ(rose, fraction * draws) << "between " << low << " and " << high;
    }
  }
}

TYPED_TEST(FormatOfType, StochasticRoundingReachesFarBelowTheSmallest) {
  constexpr const Format& format = format_of<TypeParam>;
  if constexpr (format.has_subnormals() && format.exponent_bits < 8) {
    // 2^-20 of the smallest number rounds up for the top 2^12 of 2^32 draws and for no other.
    const float x = static_cast<float>(format.min_subnormal() * 0x1p-20);
    const auto code = [&](uint32_t random) {
      return encode<format>(x, Rounding::stochastic, Overflow::special, random);
    };
    EXPECT_EQ(code(0xffffffff), 1u);
    EXPECT_EQ(code(0xfffff000), 1u);
    EXPECT_EQ(code(0xffffefff), 0u);
    EXPECT_EQ(code(0), 0u);
  }
}

TEST(Format, NanKeepsSignAndPayloadInIeeeFormats) {
  EXPECT_EQ(encode<spec::f16>(from_bits(0xffc00000)), 0xfe00u);
  EXPECT_EQ(encode<spec::f16>(from_bits(0x7f802000)), 0x7e01u);  // signaling, made quiet
  EXPECT_EQ(encode<spec::bf16>(from_bits(0xff810000)), 0xffc1u);
  EXPECT_EQ(encode<spec::bf16>(from_bits(0x7f800001)), 0x7fc0u);  // not infinity
  EXPECT_EQ(encode<spec::e5m2>(from_bits(0x7f800001)), 0x7eu);
  EXPECT_EQ(encode<spec::e4m3>(from_bits(0xffc00000)), 0xffu);
  EXPECT_EQ(to_bits(decode<spec::f16>(0x7c01)), 0x7fc02000u);
  EXPECT_EQ(to_bits(decode<spec::bf16>(0xff81)), 0xff810000u);
}

TEST(Format, OverflowOfEveryKind) {
  const auto special = Overflow::special, saturate = Overflow::saturate;
  const auto nearest = Rounding::nearest_even, zero = Rounding::toward_zero;
  // 464 is the midpoint of 448 and 480, the next number if there were one: a tie, and 448 is even.
  EXPECT_EQ(encode<spec::e4m3>(464), 0x7eu);
  EXPECT_EQ(encode<spec::e4m3>(464.01f), 0x7fu);
  EXPECT_EQ(encode<spec::e4m3>(-infinity, nearest, special), 0xffu);
  EXPECT_EQ(encode<spec::e4m3>(-infinity, nearest, saturate), 0xfeu);
  EXPECT_EQ(encode<spec::e4m3>(1e30f, zero, special), 0x7eu);
  EXPECT_EQ(encode<spec::e4m3>(infinity, zero, special), 0x7fu);
  EXPECT_EQ(encode<spec::e4m3fnuz>(-1e9f, nearest, special), 0x80u);
  EXPECT_EQ(encode<spec::e4m3fnuz>(-1e9f, nearest, saturate), 0xffu);
  EXPECT_EQ(encode<spec::e5m2>(61440, nearest, special), 0x7cu);
  EXPECT_EQ(encode<spec::e5m2>(61440, nearest, saturate), 0x7bu);
  EXPECT_EQ(encode<spec::f16>(65520), 0x7c00u);
  EXPECT_EQ(encode<spec::f16>(65519.996f), 0x7bffu);
  for (uint32_t random : {0u, 0xffffffffu})
    EXPECT_EQ(encode<spec::e4m3>(1e9f, Rounding::stochastic, saturate, random), 0x7eu);
}

TEST(Format, ScalesHaveNoSignAndNoZero) {
  EXPECT_EQ(encode<spec::e8m0>(0.0f), 0u);
  EXPECT_EQ(encode<spec::e8m0>(-0.0f), 0u);
  EXPECT_EQ(encode<spec::e8m0>(0.0f, Rounding::stochastic, Overflow::special, 0xffffffff), 0u);
  EXPECT_EQ(encode<spec::e8m0>(-1.0f), 0xffu);
  EXPECT_EQ(encode<spec::e8m0>(-infinity, Rounding::nearest_even, Overflow::saturate), 0xffu);
  EXPECT_EQ(encode<spec::e8m0>(infinity, Rounding::nearest_even, Overflow::saturate), 0xfeu);
  EXPECT_EQ(encode<spec::e8m0>(1.5f), 128u);
  EXPECT_EQ(encode<spec::e8m0>(3.0f), 129u);
  EXPECT_EQ(encode<spec::e8m0>(1.99f, Rounding::toward_zero), 127u);
  EXPECT_EQ(decode<spec::e8m0>(0), 0x1p-127f);
}

TEST(Format, E2m1HasOnlyNumbers) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint32_t code = 0; code < 8; ++code) {
    EXPECT_EQ(decode<spec::e2m1>(code), values[code]);
    EXPECT_EQ(decode<spec::e2m1>(code | 8), -values[code]);
    EXPECT_EQ(encode<spec::e2m1>(-values[code]), code | 8);
  }
  EXPECT_EQ(encode<spec::e2m1>(5.0f), 6u);   // a tie, to the even code
  EXPECT_EQ(encode<spec::e2m1>(0.25f), 0u);  // likewise
  EXPECT_EQ(encode<spec::e2m1>(-infinity), 15u);
  EXPECT_EQ(encode<spec::e2m1>(from_bits(0xffc00000)), 7u);
}

TEST(Format, Tf32KeepsTenBits) {
  EXPECT_EQ(round_tf32(1 + 0x1p-10f), 1 + 0x1p-10f);
  EXPECT_EQ(round_tf32(1 + 0x1p-11f), 1.0f);
  EXPECT_EQ(round_tf32(1 + 0x3p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(round_tf32(-(1 + 0x1p-11f + 0x1p-23f)), -(1 + 0x1p-10f));
  EXPECT_EQ(round_tf32(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(round_tf32(0x1p-149f), 0.0f);
  EXPECT_EQ(round_tf32(0x1p-136f), 0x1p-136f);
  EXPECT_TRUE(std::isnan(round_tf32(from_bits(0x7fffffff))));
  for (float x : testing::strided(4093)) {
    const uint32_t code = encode<spec::tf32>(x);
    ASSERT_EQ(to_bits(round_tf32(x)), to_bits(decode<spec::tf32>(code))) << to_bits(x);
  }
}

}  // namespace
}  // namespace binade::formats
