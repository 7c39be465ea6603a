#include "binade/backend/block_rows.h"

#include <string>

#include "binade/backend/block_element.h"
#include "binade/backend/cuda/common/launch.cuh"
#include "binade/base/error.h"

namespace binade::backend::cuda {
namespace {

constexpr int decode_threads = 256;

template <class T>
struct DecodeArgs {
  int32_t type;           // of the blocks
  int elements, bytes;    // of a block
  const uint8_t* blocks;  // the first of the first row
  int64_t row_bytes;      // from a row of blocks to the next
  int64_t rows;
  int64_t columns;
  T* values;
  int64_t row_stride;
};

// A thread an element: neighbors read neighboring codes and the same scales.
template <class T>
__global__ void __launch_bounds__(decode_threads)
    decode_kernel(const __grid_constant__ DecodeArgs<T> a) {
  for (int64_t i = first_item(); i < a.rows * a.columns; i += item_step()) {
    const int64_t row = i / a.columns;
    const int column = static_cast<int>(i - row * a.columns), block = column / a.elements;
    const uint8_t* bytes = a.blocks + row * a.row_bytes + static_cast<int64_t>(block) * a.bytes;
    a.values[row * a.row_stride + column] =
        T(block_element(a.type, bytes, column - block * a.elements));
  }
}

template <class T>
void decode(const BlockRows& rows, int64_t first, const TensorView& values) {
  const formats::BlockFormat& format = *rows.format;
  launch(decode_kernel<T>, grid_for(values.numel(), decode_threads), decode_threads, 0,
         DecodeArgs<T>{.type = format.ggml_type,
                       .elements = static_cast<int>(format.elements),
                       .bytes = static_cast<int>(format.bytes),
                       .blocks = rows.blocks.as<const uint8_t>() + first * format.bytes,
                       .row_bytes = rows.blocks.shape[1],
                       .rows = values.shape[0],
                       .columns = values.shape[1],
                       .values = values.as<T>(),
                       .row_stride = values.strides[0]});
}

void dequantize(const BlockRows& rows, int64_t first, TensorView values) {
  switch (values.dtype) {
    case DType::f32:
      return decode<float>(rows, first, values);
    case DType::bf16:
      return decode<bf16>(rows, first, values);
    case DType::f16:
      return decode<f16>(rows, first, values);
    default:
      fail("dequantize", {.argument = "values",
                          .expected = "f32, bf16 or f16",
                          .found = std::string(name(values.dtype))});
  }
}

}  // namespace

const BlockRowKernels block_row_kernels{.dequantize = dequantize};

}  // namespace binade::backend::cuda
