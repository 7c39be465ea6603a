#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// Indices are i64 or i32. One out of range is an error that names it. gather and index_select take
// integers and bools, too.

// y[i][j] = x[index[i][j]][j] for axis 0, and so on; index has x's rank and may be smaller than x
// elsewhere.
Tensor gather(const Tensor& x, int64_t axis, const Tensor& index);
// x with `axis` replaced by the entries a 1-D index selects.
Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index);
// x with source's elements added at the indices along `axis`.
Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);
// x with the rows that a 1-D index selects replaced by `values`, or with these added if
// `accumulate`. Without accumulate the index must not repeat.
Tensor index_put(const Tensor& x, const Tensor& index, const Tensor& values,
                 bool accumulate = false);
// Rows of weight [vocabulary, width]: result is index's shape + [width]. Indices outside the
// vocabulary are refused on the CPU.
Tensor embedding(const Tensor& weight, const Tensor& index);

}  // namespace binade
