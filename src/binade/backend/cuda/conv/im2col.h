#pragma once

#include <cstdint>

#include "binade/backend/cpu/conv/im2col.h"
#include "binade/tensor/tensor.h"

// A convolution as matmuls: columns are output positions, rows are the inputs of one output,
// (channel, kd, kh, kw), of all groups one below the other.
namespace binade::backend::cuda {

using cpu::ConvSizes;

// Some output positions of some images.
struct ConvPart {
  int64_t image, images;
  int64_t first, count;  // positions of each image
};

// Some channels of each group of some images.
struct ConvChannels {
  int64_t image, images;
  int64_t first, count;
};

// One matrix per image, rows dense.
struct ConvMatrix {
  void* data;
  int64_t image_stride, row_stride;
};

// Copies x to columns, in x's own type; padding is 0.
void make_columns(const ConvSizes& sizes, const TensorView& x, const ConvPart& part,
                  const ConvMatrix& columns);

// The reverse: dx (+)= bias + the sum of all columns that an element was copied to, tap by tap.
// Columns are f32 (f64 for f64) of all positions; bias, optional, has the same type.
void sum_columns(const ConvSizes& sizes, const ConvMatrix& columns, const TensorView& bias,
                 const ConvChannels& channels, const TensorView& dx, bool accumulate);

// y = result + bias of the channel, for all channels at the positions of `part`; `result` may be
// y. Results and bias have the types of sum_columns, or results have y's.
void add_channel_bias(const ConvMatrix& result, DType result_type, const TensorView& bias,
                      const ConvPart& part, const TensorView& y);

}  // namespace binade::backend::cuda
