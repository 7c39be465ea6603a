#pragma once

#include <vector>

#include "binade/tensor/tensor.h"

namespace binade {

// Copies of x with its elements moved or hidden; all are differentiable.

// The order of elements reversed along the axes.
Tensor flip(const Tensor& x, const std::vector<int64_t>& axes);
// Element i of an axis moves to i + shift, those past the end to the beginning. No axes: x is
// shifted as one line of elements, by one shift.
Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts,
            const std::vector<int64_t>& axes = {});
// x side by side with itself, times[i] times along axis i. More entries than axes add axes in
// front.
Tensor repeat(const Tensor& x, const std::vector<int64_t>& times);
// The lower (upper) triangle of the matrices in the last two axes, zeros elsewhere. `diagonal`
// moves its edge: 1 is one above the main diagonal.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);

}  // namespace binade
