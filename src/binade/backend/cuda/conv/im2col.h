#pragma once

#include <cstdint>

#include "binade/backend/cpu/conv/im2col.h"
#include "binade/tensor/tensor.h"

// A convolution as products of matrices: columns are output positions, rows are the inputs of one
// output, (channel, kd, kh, kw), of all groups one below the other.
namespace binade::backend::cuda {

using cpu::ConvSizes;

// Some positions of some images.
struct ConvPart {
  int64_t image, images;
  int64_t first, count;  // positions of each image
};

// Matrices of a number of images: where the element of (image, row, column) lies.
struct ConvMatrix {
  void* data;
  int64_t image, row;  // strides; columns lie side by side
};

// Columns of x, in x's own type; padding is 0.
void make_columns(const ConvSizes& sizes, const TensorView& x, const ConvPart& part,
                  const ConvMatrix& columns);

// The reverse: dx (+)= bias + the sum of all columns that channels [first, first + channels) of
// each group were copied to, tap by tap. Columns are f32 (f64 for f64) of all positions; bias,
// optional, is of the same type.
void sum_columns(const ConvSizes& sizes, const ConvMatrix& columns, const TensorView& bias,
                 int64_t image, int64_t images, int64_t first, int64_t channels,
                 const TensorView& dx, bool accumulate);

// y = result + bias of the channel, for all channels [images, channels, positions] of a part of y,
// which `result` may be. Results and bias are as those of sum_columns, or results are of y's type.
void add_channel_bias(int64_t channels, int64_t plane, const ConvMatrix& result, DType result_type,
                      const TensorView& bias, const ConvPart& part, const TensorView& y);

}  // namespace binade::backend::cuda
