#include "binade/tensor/quantized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "binade/backend/backend.h"
#include "binade/tensor/memory.h"
#include "support/error_of.h"

namespace binade {
namespace {

namespace spec = formats::spec;
using ::testing::HasSubstr;

TEST(Quantized, HasAScaleForEachGroup) {
  const Shape matrix{300, 260};
  EXPECT_EQ(scale_shape(matrix, {0, 0}), (Shape{1, 1})) << "one per tensor";
  EXPECT_EQ(scale_shape(matrix, {1, 0}), (Shape{300, 1})) << "one per row";
  EXPECT_EQ(scale_shape(matrix, {1, 128}), (Shape{300, 3}))
      << "blocks of an activation, the last one partial";
  EXPECT_EQ(scale_shape(matrix, {128, 128}), (Shape{3, 3})) << "blocks of a weight";
  EXPECT_EQ(scale_shape(matrix, {1, 32}), (Shape{300, 9})) << "MX";
}

TEST(Quantized, GroupsOfAnEmptyMatrix) {
  EXPECT_EQ(scale_shape({0, 64}, {1, 32}), (Shape{0, 2}));
  EXPECT_EQ(scale_shape({0, 0}, {0, 0}), (Shape{1, 1}));
}

TEST(Quantized, IsDefinedByItsData) {
  Quantized q;
  EXPECT_FALSE(q.defined());
  q.data = Tensor::empty({2, 2}, DType::e4m3);
  EXPECT_TRUE(q.defined());
}

TEST(Quantized, FormatsAreStoredInTheirTypeOrInBytes) {
  EXPECT_EQ(stored_type(spec::e4m3), DType::e4m3);
  EXPECT_EQ(stored_type(spec::e5m2), DType::e5m2);
  EXPECT_EQ(stored_type(spec::bf16), DType::bf16);
  EXPECT_EQ(stored_type(spec::f16), DType::f16);
  EXPECT_EQ(stored_type(spec::f32), DType::f32);
  EXPECT_EQ(stored_type(spec::tf32), DType::f32);
  for (const formats::Format& format : {spec::e4m3fnuz, spec::e8m0, spec::e2m1})
    EXPECT_EQ(stored_type(format), DType::u8) << format.name;
  EXPECT_THROW(stored_type(spec::f64), Error);
  EXPECT_EQ(stored_shape({3, 7}, spec::e4m3), (Shape{3, 7}));
  EXPECT_EQ(stored_shape({3, 7}, spec::e4m3fnuz), (Shape{3, 7}));
  EXPECT_EQ(stored_shape({3, 7}, spec::e2m1), (Shape{3, 4})) << "rows start at a byte";
  EXPECT_EQ(stored_shape({3, 8}, spec::e2m1), (Shape{3, 4}));
  EXPECT_EQ(stored_shape({3, 0}, spec::e2m1), (Shape{3, 0}));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2})
    EXPECT_EQ(stored_type(format_of(dtype)), dtype);
  for (const DType dtype : {DType::u8, DType::i32, DType::f64})
    EXPECT_THROW(format_of(dtype), Error);
}

// NVFP4 of [32, 48]: 4 bits each, a byte per 16 and 4 for the tensor.
TEST(Quantized, BytesAreThoseOfCodesAndScales) {
  const QuantizedLayout nvfp4{
      .format = spec::e2m1, .group = {1, 16}, .scale = spec::e4m3, .outer = ScaleGroup{}};
  const int64_t before = memory::allocated(Device::meta());
  Quantized q = empty_quantized({32, 48}, nvfp4, Device::meta());
  EXPECT_EQ(q.bytes(), 32 * 48 / 2 + 32 * 3 + 4);
  EXPECT_GE(memory::allocated(Device::meta()) - before, q.bytes());
  check_quantized(q);
  q.transposed = Tensor::empty({48, 16}, DType::u8, Device::meta());
  EXPECT_EQ(q.bytes(), 32 * 48 + 32 * 3 + 4);
  check_quantized(q);
}

TEST(Quantized, PartsThatDoNotFitAreRefusedByName) {
  const QuantizedLayout layout{
      .format = spec::e2m1, .group = {1, 16}, .scale = spec::e4m3, .outer = ScaleGroup{1, 0}};
  const auto refused = [&](const std::function<void(Quantized&)>& change) {
    Quantized q = empty_quantized({4, 33}, layout, Device::cpu());
    check_quantized(q);
    change(q);
    return test::error_of([&] { check_quantized(q); });
  };
  EXPECT_THAT(refused([](Quantized& q) { q.shape = {4, 33, 1}; }), HasSubstr("shape"));
  EXPECT_THAT(refused([](Quantized& q) { q.data = {}; }), HasSubstr("data: expected [4, 17] u8"));
  EXPECT_THAT(refused([](Quantized& q) {
                q.data = Tensor::empty({4, 16}, DType::u8);
              }),
              HasSubstr("data: expected [4, 17] u8"));
  EXPECT_THAT(refused([](Quantized& q) {
                q.data = Tensor::empty({4, 17}, DType::e4m3);
              }),
              HasSubstr("data"));
  EXPECT_THAT(refused([](Quantized& q) {
                q.scale_inv = Tensor::empty({4, 2}, DType::e4m3);
              }),
              HasSubstr("scale_inv: expected [4, 3] e4m3"));
  EXPECT_THAT(refused([](Quantized& q) {
                q.scale_inv = Tensor::empty({4, 3}, DType::u8);
              }),
              HasSubstr("scale_inv"));
  EXPECT_THAT(refused([](Quantized& q) {
                q.outer_inv = Tensor::empty({1, 1}, DType::f32);
              }),
              HasSubstr("outer_inv: expected [4, 1] f32"));
  EXPECT_THAT(refused([](Quantized& q) { q.layout.outer = {}; }), HasSubstr("outer_inv"));
  EXPECT_THAT(refused([](Quantized& q) { q.transposed = q.data; }),
              HasSubstr("transposed: expected [33, 2] u8"));
}

void fill_bytes(const Tensor& x, const std::vector<uint8_t>& bytes) {
  ASSERT_EQ(static_cast<size_t>(x.bytes()), bytes.size());
  std::memcpy(x.raw_data(), bytes.data(), bytes.size());
}

std::vector<float> values_of(const Quantized& q) {
  const Tensor x = Tensor::empty(q.shape, DType::f32);
  backend::of(x).quantize.dequantize(backend::QuantizedView(q), x);
  return {x.data<float>(), x.data<float>() + x.numel()};
}

// Codes of e2m1: 0, .5, 1, 1.5, 2, 3, 4, 6, and their negatives from 8 on. Scales of e4m3: 0x38 is
// 1, 0x40 is 2, 0x30 is 0.5, 0x01 is 2^-9.
Quantized two_levels(ScaleGroup outer, const std::vector<float>& outer_inv) {
  const Quantized q = empty_quantized(
      {4, 3}, {.format = spec::e2m1, .group = {2, 2}, .scale = spec::e4m3, .outer = outer},
      Device::cpu());
  // The first of two codes is in the low half; the high half of each row's last byte is unused.
  fill_bytes(q.data, {0x21, 0x03, 0x54, 0x06, 0xF7, 0x09, 0x0A, 0x80});
  fill_bytes(q.scale_inv, {0x38, 0x40, 0x30, 0x01});
  std::memcpy(q.outer_inv.raw_data(), outer_inv.data(), outer_inv.size() * sizeof(float));
  return q;
}

TEST(Quantized, ValuesAreCodesTimesBothScales) {
  EXPECT_EQ(values_of(two_levels({}, {3})),
            (std::vector<float>{1.5, 3, 9, 6, 9, 24, 9, -9, -3.0f / 1024, -1.5, 0, 0}));
  EXPECT_EQ(values_of(two_levels({1, 0}, {1, 2, 4, 8})),
            (std::vector<float>{0.5, 1, 3, 4, 6, 16, 12, -12, -4.0f / 1024, -4, 0, 0}));
}

TEST(Quantized, OtherFormatsOfEightBitsHaveScalesToo) {
  const Quantized fnuz =
      empty_quantized({1, 2}, {.format = spec::e4m3fnuz, .scale = spec::e8m0}, Device::cpu());
  fill_bytes(fnuz.data, {0x40, 0xC4});  // 1 and -1.5, whose bias is 8
  fill_bytes(fnuz.scale_inv, {130});    // 2^3
  EXPECT_EQ(values_of(fnuz), (std::vector<float>{8, -12}));
  const Quantized plain = empty_quantized({1, 2}, {.format = spec::bf16}, Device::cpu());
  fill_bytes(plain.data, {0x80, 0x3F, 0x40, 0xC0});  // 1 and -3
  fill_bytes(plain.scale_inv, {0, 0, 0x80, 0x3E});   // 0.25
  EXPECT_EQ(values_of(plain), (std::vector<float>{0.25, -0.75}));
}

TEST(Quantized, RowsAreViewedInWholeGroups) {
  const Quantized q = two_levels({1, 0}, {1, 2, 4, 8});
  const Quantized lower = quantized_rows(q, 2, 2);
  check_quantized(lower);
  EXPECT_EQ(lower.data.storage(), q.data.storage());
  EXPECT_EQ(values_of(lower), (std::vector<float>{12, -12, -4.0f / 1024, -4, 0, 0}));
  EXPECT_EQ(values_of(quantized_rows(q, 0, 4)), values_of(q));
  EXPECT_EQ(quantized_rows(q, 4, 0).shape, (Shape{0, 3}));
  EXPECT_EQ(values_of(quantized_rows(two_levels({}, {3}), 2, 2))[0], 9);
  for (const auto& [begin, count] : {std::pair(1, 2), {0, 1}, {2, 4}, {-2, 2}, {2, -2}})
    EXPECT_THAT(test::error_of([&, from = begin, n = count] { quantized_rows(q, from, n); }),
                HasSubstr("whole groups of 2 within 0 to 4"))
        << begin << " " << count;
}

}  // namespace
}  // namespace binade
