#include "binade/backend/block_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "binade/backend/block_element.h"

namespace binade::backend {
namespace {

std::vector<const formats::BlockFormat*> all_block_formats() {
  std::vector<const formats::BlockFormat*> all = {&formats::nf4, &formats::fp8_block};
  for (const formats::BlockFormat& one : formats::block_formats()) all.push_back(&one);
  return all;
}

// What GPU threads compute, by the functions that they share with this test.
TEST(BlockElement, IsThatOfTheFormatForAnyBytes) {
  std::mt19937 draw(5);
  for (const formats::BlockFormat* format : all_block_formats()) {
    SCOPED_TRACE(format->name);
    std::vector<uint8_t> block(static_cast<size_t>(format->bytes));
    std::vector<float> values(static_cast<size_t>(format->elements));
    for (int round = 0; round < 200; ++round) {
      for (uint8_t& byte : block) byte = static_cast<uint8_t>(draw());
      format->dequantize(block.data(), values.data());
      for (int i = 0; i < format->elements; ++i) {
        const float expected = values[static_cast<size_t>(i)],
                    found = block_element(format->ggml_type, block.data(), i);
        if (std::isnan(expected) && std::isnan(found)) continue;
        ASSERT_EQ(formats::float_bits(found), formats::float_bits(expected)) << round << " " << i;
      }
    }
  }
}

// Rows that are apart, from the second block on, in each type.
TEST(BlockRows, DecodesPartsOfRowsAndRoundsOnce) {
  std::mt19937 draw(6);
  const formats::BlockFormat& format = formats::nf4;
  const int64_t rows = 3, across = 4;
  const Tensor blocks = Tensor::empty({rows, across * format.bytes}, DType::u8);
  for (int64_t i = 0; i < blocks.numel(); ++i)
    static_cast<uint8_t*>(blocks.raw_data())[i] = static_cast<uint8_t>(draw() % 64);
  std::vector<float> expected(static_cast<size_t>(rows * across * format.elements));
  formats::dequantize_blocks(
      format,
      {static_cast<const std::byte*>(blocks.raw_data()), static_cast<size_t>(blocks.bytes())},
      expected);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor values = Tensor::empty({rows, 200}, dtype);
    const Tensor part = values.strided({rows, 128}, values.strides(), 5);
    block_row_kernels(Device::cpu()).dequantize({&format, blocks}, 2, part);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < 128; ++column) {
        const float exact = expected[static_cast<size_t>(row * 256 + 128 + column)];
        const int64_t at = row * 200 + 5 + column;
        const float found = dtype == DType::f32    ? values.data<float>()[at]
                            : dtype == DType::bf16 ? static_cast<float>(values.data<bf16>()[at])
                                                   : static_cast<float>(values.data<f16>()[at]);
        const float rounded = dtype == DType::f32    ? exact
                              : dtype == DType::bf16 ? static_cast<float>(bf16(exact))
                                                     : static_cast<float>(f16(exact));
        ASSERT_EQ(found, rounded) << row << " " << column << " " << name(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace binade::backend
