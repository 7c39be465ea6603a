#include "binade/backend/block_rows.h"

#include <algorithm>
#include <array>
#include <string>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

constexpr size_t max_elements = 256;     // of a block
constexpr int64_t least_work = 1 << 14;  // elements that are worth a thread

// Decodes `count` blocks into a row of T.
template <class T>
void decode_row(const formats::BlockFormat& format, const uint8_t* blocks, int64_t count, T* row) {
  std::array<float, max_elements> values;
  for (int64_t i = 0; i < count; ++i, blocks += format.bytes, row += format.elements) {
    format.dequantize(blocks, values.data());
    formats::narrow(values.data(), row, static_cast<size_t>(format.elements));
  }
}

template <>
void decode_row(const formats::BlockFormat& format, const uint8_t* blocks, int64_t count,
                float* row) {
  for (int64_t i = 0; i < count; ++i, blocks += format.bytes, row += format.elements)
    format.dequantize(blocks, row);
}

template <class T>
void decode_rows(const BlockRows& rows, int64_t first, const TensorView& values) {
  const formats::BlockFormat& format = *rows.format;
  const int64_t count = values.shape[1] / format.elements;
  const int64_t grain = std::max<int64_t>(1, least_work / std::max<int64_t>(values.shape[1], 1));
  parallel_for(values.shape[0], grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      decode_row(
          format,
          rows.blocks.as<const uint8_t>() + row * rows.blocks.shape[1] + first * format.bytes,
          count, values.as<T>() + row * values.strides[0]);
  });
}

void dequantize(const BlockRows& rows, int64_t first, TensorView values) {
  switch (values.dtype) {
    case DType::f32:
      return decode_rows<float>(rows, first, values);
    case DType::bf16:
      return decode_rows<bf16>(rows, first, values);
    case DType::f16:
      return decode_rows<f16>(rows, first, values);
    default:
      fail("dequantize", {.argument = "values",
                          .expected = "f32, bf16 or f16",
                          .found = std::string(name(values.dtype))});
  }
}

}  // namespace

const BlockRowKernels block_row_kernels{.dequantize = dequantize};

}  // namespace binade::backend::cpu
