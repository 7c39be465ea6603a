#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/backend/transfer.h"
#include "binade/base/random.h"
#include "support/values.h"

// Casts and quantized bytes are the CPU's bit for bit.
namespace binade::backend::cuda_cast_test {
namespace {

class CastGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};

// Every exponent, ties, subnormals, and what is not finite.
Tensor hard_numbers(const Shape& shape) {
  const Tensor x = Tensor::empty(shape, DType::f32);
  auto* values = x.mutable_data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    uint32_t bits = random::bits(7, 0, static_cast<uint64_t>(i));
    if (i % 3 == 1) bits &= 0xffff8000u;  // on and between 16-bit numbers
    if (i % 3 == 2) bits = (bits & 0x807fffffu) | (118 + i % 16) << 23;  // near 1
    values[i] = formats::float_from_bits(bits);
  }
  return x;
}

Tensor finite(const Tensor& x, float scale) {
  const Tensor y = Tensor::empty(x.shape(), DType::f32);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float value = x.data<float>()[i];
    y.mutable_data<float>()[i] =
        std::isfinite(value) ? std::remainder(value, 500.0f) * scale : 0.0f;
  }
  return y;
}

// NaNs may differ in their payload and sign, nothing else may differ.
void expect_same_numbers(const Tensor& found, const Tensor& expected) {
  const std::vector<double> a = test::read(found), b = test::read(expected);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(a[i], b[i]) << "element " << i;
    ASSERT_EQ(std::signbit(a[i]), std::signbit(b[i])) << "element " << i;
  }
}

TEST_F(CastGpu, BetweenAllTypesIsTheCpus) {
  const Tensor source = hard_numbers({257, 129});
  for (const DType from : all_dtypes) {
    const Tensor x = Tensor::empty(source.shape(), from);
    of(x).elementwise.copy(source, x);
    const Tensor there = transfer(x, Device::cuda());
    for (const DType to : all_dtypes) {
      SCOPED_TRACE(std::string(name(from)) + " to " + std::string(name(to)));
      const Tensor expected = Tensor::empty(source.shape(), to);
      const Tensor found = Tensor::empty(source.shape(), to, Device::cuda());
      of(x).elementwise.copy(x, expected);
      of(found).elementwise.copy(there, found);
      expect_same_numbers(found, expected);
      // And transposed: the path through tiles.
      const Tensor transposed = Tensor::empty({129, 257}, to, Device::cuda());
      of(found).elementwise.copy(there.strided({129, 257}, {1, 129}, 0), transposed);
      const Tensor transposed_expected = Tensor::empty({129, 257}, to);
      of(x).elementwise.copy(x.strided({129, 257}, {1, 129}, 0), transposed_expected);
      expect_same_numbers(transposed, transposed_expected);
    }
  }
}

TEST_F(CastGpu, QuantizedBytesAreTheCpus) {
  for (const Shape& shape : {Shape{64, 128}, Shape{257, 131}, Shape{1, 7}, Shape{384, 256}}) {
    const Tensor wide = finite(hard_numbers(shape), 0.37f);
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      const Tensor x = Tensor::empty(shape, type);
      of(x).elementwise.copy(wide, x);
      for (const DType fp8 : {DType::e4m3, DType::e5m2}) {
        SCOPED_TRACE(to_string(shape) + std::string(name(type)) + std::string(name(fp8)));
        const auto quantize = [&](const Tensor& x) {
          const Device device = x.device();
          std::vector<Tensor> results;
          const auto make = [&](const Shape& shape, DType dtype) {
            results.push_back(Tensor::empty(shape, dtype, device));
            of(device).elementwise.fill(results.back(), 0);
            return results.back();
          };
          const auto& kernels = of(device).quantize;
          const Tensor scale = Tensor::empty({1}, DType::f32, device);
          of(device).elementwise.fill(scale, 1.75);
          const Tensor q = make(shape, fp8), transposed = make({shape[1], shape[0]}, fp8);
          const Tensor amax = make({1}, DType::f32);
          kernels.quantize(x, {scale, q, transposed, amax});
          for (const ScaleGroup group :
               {ScaleGroup{0, 0}, ScaleGroup{1, 0}, ScaleGroup{1, 128}, ScaleGroup{128, 128}}) {
            const Tensor data = make(shape, fp8);
            kernels.quantize_groups(
                x,
                {.group = group,
                 .rule = {.eps = 1e-12, .power_of_two = group.columns == 128},
                 .data = data,
                 .transposed = group == ScaleGroup{} ? make({shape[1], shape[0]}, fp8) : Tensor(),
                 .scale_inv = make(scale_shape(shape, group), DType::f32)});
          }
          const Tensor mx = make(shape, fp8);
          kernels.quantize_mx(x, {mx, make(scale_shape(shape, {1, 32}), DType::u8), {1, 32}});
          return results;
        };
        const std::vector<Tensor> expected = quantize(x),
                                  found = quantize(transfer(x, Device::cuda()));
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_TRUE(test::same_bits(found[i], expected[i])) << "result " << i;
      }
    }
  }
}

}  // namespace
}  // namespace binade::backend::cuda_cast_test
