#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// The elements of a matrix that share one scale: groups of `rows` x `columns`; 0 means all.
// {0, 0}: one scale per tensor; {1, 0}: one per row; {1, 128} and {128, 128}: blocks; {1, 32}: MX.
struct ScaleGroup {
  int64_t rows = 0;
  int64_t columns = 0;
  bool operator==(const ScaleGroup&) const = default;
};

// The shape of the scales of a matrix [rows, columns].
Shape scale_shape(const Shape& matrix, ScaleGroup group);
// The group with the matrix's own sizes in place of 0.
ScaleGroup sized_group(const Shape& matrix, ScaleGroup group);

// A quantized matrix: data together with its scales; value = data * scale_inv of its group.
struct Quantized {
  Tensor data;       // e4m3 or e5m2, [rows, columns], dense
  Tensor scale_inv;  // f32, or e8m0 in u8; scale_shape(data.shape(), group)
  ScaleGroup group;
  Tensor transposed = {};  // optional: the same data as [columns, rows], dense

  bool defined() const { return data.defined(); }
};

}  // namespace binade
