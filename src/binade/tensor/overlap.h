#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// Whether two indices of x refer to one element in memory, as in an expanded view.
bool overlaps_itself(const Tensor& x);

// Whether writing x element by element may change elements of `source`, broadcast to x's shape,
// before they are read. False if each element is read where it is written, if their memory is apart
// and if their elements alternate, as in x[0::2] and x[1::2].
bool write_changes(const Tensor& x, const Tensor& source);

}  // namespace binade
