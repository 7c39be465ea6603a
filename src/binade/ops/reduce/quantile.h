#pragma once

#include <optional>

#include "binade/ops/index/sort.h"
#include "binade/tensor/tensor.h"

namespace binade {

// The element in the middle when sorted, the lower one of two; NaN if any element is. Its gradient
// goes to one element. Of all elements, or along an axis with its index (i64).
Tensor median(const Tensor& x);
Sorted median(const Tensor& x, int64_t axis, bool keep = false);
// Where the q-th part of the sorted elements ends, 0 <= q <= 1, interpolated between its two
// neighbors; NaN if any element is. Of f32 and f64, in this type. With a line of several q the
// result has them as its first axis. Of all elements if no axis is given.
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> axis = {}, bool keep = false);
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int64_t> axis = {},
                bool keep = false);

}  // namespace binade
