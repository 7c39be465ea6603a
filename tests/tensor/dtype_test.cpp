#include "binade/tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "support/values.h"

namespace binade {
namespace {

using enum DType;

TEST(DType, KnowsItsSize) {
  const std::map<DType, size_t> sizes = {{f64, 8},  {f32, 4}, {f16, 2}, {bf16, 2}, {e4m3, 1},
                                         {e5m2, 1}, {i64, 8}, {i32, 4}, {u8, 1},   {boolean, 1}};
  for (const DType dtype : all_dtypes) EXPECT_EQ(size_of(dtype), sizes.at(dtype)) << name(dtype);
}

TEST(DType, NamesAreReadBack) {
  std::set<std::string_view> names;
  for (const DType dtype : all_dtypes) {
    names.insert(name(dtype));
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  }
  EXPECT_EQ(names.size(), std::size(all_dtypes));
  EXPECT_EQ(parse_dtype("float32"), f32);
  EXPECT_EQ(parse_dtype("bfloat16"), bf16);
  EXPECT_EQ(parse_dtype("half"), f16);
  EXPECT_EQ(parse_dtype("float8_e4m3fn"), e4m3);
  EXPECT_EQ(test::error_of([] { parse_dtype("f31"); }),
            "parse_dtype: dtype: expected f64 f32 f16 bf16 e4m3 e5m2 i64 i32 u8 bool, found 'f31'");
  EXPECT_NE(test::error_of([] { parse_dtype(""); }), "");
}

TEST(DType, Kinds) {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    EXPECT_TRUE(is_floating(dtype) && is_compute(dtype) && !is_quantized(dtype)) << name(dtype);
  }
  for (const DType dtype : {e4m3, e5m2})
    EXPECT_TRUE(is_floating(dtype) && !is_compute(dtype) && is_quantized(dtype)) << name(dtype);
  for (const DType dtype : {i64, i32, u8, boolean})
    EXPECT_FALSE(is_floating(dtype) || is_compute(dtype) || is_quantized(dtype)) << name(dtype);
}

// torch.promote_types, which does not mix FP8 types; here they give f32.
TEST(DType, PromotesAsPyTorchDoes) {
  constexpr DType order[] = {f64, f32, f16, bf16, i64, i32, u8, boolean};
  constexpr DType table[8][8] = {
      {f64, f64, f64, f64, f64, f64, f64, f64},  {f64, f32, f32, f32, f32, f32, f32, f32},
      {f64, f32, f16, f32, f16, f16, f16, f16},  {f64, f32, f32, bf16, bf16, bf16, bf16, bf16},
      {f64, f32, f16, bf16, i64, i64, i64, i64}, {f64, f32, f16, bf16, i64, i32, i32, i32},
      {f64, f32, f16, bf16, i64, i32, u8, u8},   {f64, f32, f16, bf16, i64, i32, u8, boolean},
  };
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b)
      EXPECT_EQ(promote(order[a], order[b]), table[a][b])
          << name(order[a]) << " " << name(order[b]);
  }
  EXPECT_EQ(promote(e4m3, e5m2), f32);
  EXPECT_EQ(promote(e4m3, e4m3), e4m3);
  EXPECT_EQ(promote(e4m3, bf16), bf16);
}

TEST(DType, EpsilonIsTheStepAboveOne) {
  EXPECT_EQ(epsilon(f64), std::nextafter(1.0, 2.0) - 1);
  EXPECT_EQ(epsilon(f32), std::nextafter(1.0f, 2.0f) - 1);
  EXPECT_EQ(epsilon(f16), 0x1p-10);
  EXPECT_EQ(epsilon(bf16), 0x1p-7);
  EXPECT_EQ(epsilon(e4m3), 0x1p-3);
  EXPECT_EQ(epsilon(e5m2), 0x1p-2);
  EXPECT_EQ(test::error_of([] { epsilon(i64); }),
            "epsilon: dtype: expected a floating type, found i64");
}

TEST(DType, DispatchGivesTheTypeOfItsName) {
  for (const DType dtype : all_dtypes) {
    dispatch(dtype, [&](auto tag) {
      EXPECT_EQ(dtype_of<typename decltype(tag)::type>, dtype) << name(dtype);
    });
  }
  EXPECT_EQ(test::error_of([] { dispatch_floating("exp", i32, [](auto) {}); }),
            "exp: dtype: expected f64, f32, f16 or bf16, found i32");
  EXPECT_NE(test::error_of([] { dispatch_floating("exp", e4m3, [](auto) {}); }), "");
}

}  // namespace
}  // namespace binade
