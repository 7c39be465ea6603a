#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Indices are i64 or i32 and were checked by the op (negative ones already wrapped or refused).
// Sums over equal indices run in index order in f32, so they do not depend on the number of
// threads.
struct IndexKernels {
  // y[..., i, ...] = x[..., index[..., i, ...], ...] along `axis`; index and y have one shape.
  void (*gather)(TensorView x, int axis, TensorView index, TensorView y);
  // y[..., index[..., i, ...], ...] += x[..., i, ...] along `axis`; y is initialized.
  void (*scatter_add)(TensorView x, int axis, TensorView index, TensorView y);
  // y = x with `axis` replaced by the entries a 1-D index selects.
  void (*index_select)(TensorView x, int axis, TensorView index, TensorView y);
  // y[..., index[i], ...] += x[..., i, ...] for a 1-D index: the gradient of index_select.
  void (*index_add)(TensorView x, int axis, TensorView index, TensorView y);
  // Smallest and largest index, for range checks: bounds is i64 [2].
  void (*bounds)(TensorView index, TensorView bounds);
  // index (i64 [rows, k], dense): positions of the first k elements of each row of dense x [rows,
  // width] in ascending or descending order. Equal elements keep their order; NaN is the largest.
  // GPUs have none: ops sort on the host.
  void (*sort)(TensorView x, bool descending, TensorView index) = nullptr;
};

}  // namespace binade::backend
