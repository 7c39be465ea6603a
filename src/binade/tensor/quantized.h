#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// How many elements of a matrix share one scale: groups of `rows` x `columns`; 0 means all of them.
// {0, 0}: one scale per tensor; {1, 0}: one per row; {1, 128} and {128, 128}: blocks; {1, 32}: MX.
struct ScaleGroup {
  int64_t rows = 0;
  int64_t columns = 0;
  bool operator==(const ScaleGroup&) const = default;
};

// The shape of the scales of a matrix [rows, columns].
Shape scale_shape(const Shape& matrix, ScaleGroup group);

// FP8 data and the scales without which it means nothing: value = data * inverse scale of its
// group.
struct Quantized {
  Tensor data;           // e4m3 or e5m2, [rows, columns], dense
  Tensor inverse_scale;  // f32, or u8 holding e8m0 codes; scale_shape(data.shape(), group)
  ScaleGroup group;
  Tensor transposed = {};  // optional: the codes again as [columns, rows], dense

  bool defined() const { return data.defined(); }
};

}  // namespace binade
