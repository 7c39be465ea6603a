#pragma once

#include <span>

#include "binade/formats/weights/weight_format.h"
#include "binade/tensor/tensor.h"

namespace binade {

// Rows [begin, begin + rows) of a weight that a file holds as a tensor of its own, or all rows if
// there are 0. If `heads` is not 0, the file has q, k and v of each head in turn.
struct WeightPart {
  int64_t begin = 0;
  int64_t rows = 0;
  int64_t heads = 0;
};

// The values that a file of this format holds for a weight [out, in], in f32; each part is rounded
// by itself, and rows of no part stay as they are. Without parts the weight is one. Records no
// gradient: see straight_through(). On the CPU and the meta device.
Tensor round_weight(const Tensor& weight, const formats::WeightFormat& format,
                    std::span<const WeightPart> parts = {});

// A tensor with the data of `values` whose gradient is that of `parameter`: ops compute with the
// values, and the parameter gets the gradient as it is (the straight-through estimator). Both have
// one shape; the parameter is a leaf.
Tensor straight_through(const Tensor& values, const Tensor& parameter);

}  // namespace binade
