#include "binade/formats/number.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "formats/reference.h"

namespace binade {
namespace {

using formats::format_of;
using formats::testing::to_bits;

template <class T>
class NumberOfType : public ::testing::Test {};
using Types = ::testing::Types<f16, bf16, e4m3, e4m3fnuz, e5m2, e8m0>;
TYPED_TEST_SUITE(NumberOfType, Types);

TYPED_TEST(NumberOfType, IsPlainStorage) {
  static_assert(std::is_trivially_copyable_v<TypeParam>);
  static_assert(std::is_trivially_default_constructible_v<TypeParam>);
  static_assert(std::is_standard_layout_v<TypeParam>);
  static_assert(sizeof(TypeParam) * 8 == format_of<TypeParam>.bits());
  static_assert(!std::is_convertible_v<float, TypeParam>, "rounding must be asked for");
  static_assert(std::is_convertible_v<TypeParam, float>);
  static_assert(static_cast<float>(TypeParam(2.0f)) == 2.0f);
}

TYPED_TEST(NumberOfType, WidensLikeDecode) {
  constexpr const formats::Format& format = format_of<TypeParam>;
  for (uint32_t code = 0; code < 1u << format.bits(); ++code) {
    const auto number = TypeParam::from_bits(static_cast<typename TypeParam::Bits>(code));
    ASSERT_EQ(number.bits, code);
    ASSERT_EQ(to_bits(number), to_bits(formats::decode<format>(code))) << code;
  }
}

// f16 and bf16 have faster conversions, which must give the same bits.
TYPED_TEST(NumberOfType, NarrowsLikeEncode) {
  constexpr const formats::Format& format = format_of<TypeParam>;
  for (float x : formats::testing::strided(1021))
    ASSERT_EQ(TypeParam(x).bits, formats::encode<format>(x)) << to_bits(x);
  for (float x : formats::testing::boundaries<TypeParam>())
    ASSERT_EQ(TypeParam(x).bits, formats::encode<format>(x)) << to_bits(x);
}

TEST(Number, FormatOfPlainTypes) {
  static_assert(format_of<float>.epsilon() == 0x1p-23);
  static_assert(format_of<double>.epsilon() == 0x1p-52);
  static_assert(format_of<const f16>.max() == 65504);
}

}  // namespace
}  // namespace binade
