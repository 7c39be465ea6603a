#include "binade/ops/quantized/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/formats/format.h"
#include "support/tensors.h"

namespace binade {
namespace {

// The error of a number in FP8: half a unit in its last place, or half the smallest subnormal,
// times its group's scale_inv.
double allowed(double value, double scale_inv, DType dtype) {
  const formats::Format& format = format_of(dtype);
  return std::max(std::abs(value) * format.epsilon() / 2, format.min_subnormal() / 2 * scale_inv) *
         (1 + 1e-6);
}

TEST(Quantize, ComesBackWithinHalfAStep) {
  const Tensor x = test::noise({37, 150}, 1);
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    for (const ScaleGroup group :
         {ScaleGroup{0, 0}, ScaleGroup{1, 0}, ScaleGroup{1, 128}, ScaleGroup{128, 128}}) {
      for (const amp::ScaleRule rule : {amp::ScaleRule::largest, amp::ScaleRule::power_of_two}) {
        const Quantized q = quantize(x, {.format = format_of(dtype), .group = group, .rule = rule});
        EXPECT_EQ(q.data.dtype(), dtype);
        EXPECT_EQ(q.scale_inv.shape(), scale_shape(x.shape(), group));
        const std::vector<double> values = test::read(x), back = test::read(dequantize(q)),
                                  scales = test::read(q.scale_inv);
        const double coarsest = *std::max_element(scales.begin(), scales.end());
        for (size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(back[i], values[i], allowed(values[i], coarsest, dtype));
      }
    }
  }
}

TEST(Quantize, LargestElementsFillTheRange) {
  const Tensor x = test::noise({8, 64}, 2);
  const Quantized q = quantize(x, {.group = {1, 0}});
  const std::vector<double> data = test::read(q.data);
  for (size_t row = 0; row < 8; ++row) {
    double most = 0;
    for (size_t i = 0; i < 64; ++i) most = std::max(most, std::abs(data[row * 64 + i]));
    EXPECT_EQ(most, formats::spec::e4m3.max());
  }
}

TEST(Quantize, MxScalesArePowersOfTwoInE8m0) {
  const Tensor x = test::noise({5, 70}, 3);
  const Quantized q = quantize(
      x, {.group = {1, 32}, .scale = formats::spec::e8m0, .rule = amp::ScaleRule::mx_floor});
  EXPECT_EQ(q.scale_inv.dtype(), DType::u8);
  EXPECT_EQ(q.scale_inv.shape(), (Shape{5, 3}));
  const std::vector<double> values = test::read(x), back = test::read(dequantize(q));
  // The shared exponent may leave the largest element up to one step beyond the range.
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(back[i], values[i], std::abs(values[i]) * 0x1p-3 + 0x1p-9);
}

TEST(Quantize, TakesAScaleOfTheCallers) {
  const Tensor x = tensor({1, -2, 1000, 0.25}, {2, 2});
  const Quantized q = quantize(x, 2.0);
  EXPECT_EQ(test::read(q.data), (std::vector<double>{2, -4, 448, 0.5})) << "saturating";
  EXPECT_EQ(test::read(dequantize(q, DType::bf16)), (std::vector<double>{1, -2, 224, 0.25}));
}

TEST(Quantize, ZerosAndMeta) {
  EXPECT_EQ(test::read(dequantize(quantize(zeros({3, 3})))), std::vector<double>(9, 0));
  const Quantized q =
      quantize(Tensor::empty({4, 64}, DType::f32, Device::meta()), {.group = {1, 32}});
  EXPECT_EQ(describe(q.data), "[4, 64] e4m3 meta");
  EXPECT_EQ(describe(dequantize(q)), "[4, 64] f32 meta");
}

// Kernels do not run over an empty tensor.
TEST(Quantize, ScalesOfEmptyTensorsAreOne) {
  for (const Shape& shape : {Shape{0, 8}, Shape{8, 0}}) {
    EXPECT_EQ(test::read(quantize(zeros(shape)).scale_inv), std::vector<double>{1});
    EXPECT_EQ(quantize(zeros(shape)).data.shape(), shape);
  }
  const Quantized rows = quantize(zeros({8, 0}), {.group = {1, 0}});
  EXPECT_EQ(test::read(rows.scale_inv), std::vector<double>(8, 1));
}

// Scales of the past are a layer's.
TEST(Quantize, TakesNoOtherSourceThanTheTensor) {
  for (const amp::ScaleSource& source :
       {amp::ScaleSource(amp::Delayed{}), amp::ScaleSource(amp::Constant{})}) {
    const std::string message = test::error_of([&] {
      quantize(zeros({2, 2}), {.source = source});
    });
    EXPECT_NE(message.find("recipe.source"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace binade
