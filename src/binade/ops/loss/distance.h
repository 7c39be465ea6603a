#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// a . b / (|a| |b|) along an axis; norms below eps count as eps.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis = -1, double eps = 1e-8);
// Euclidean distances of all rows of a [..., m, d] to all rows of b [..., n, d].
Tensor cdist(const Tensor& a, const Tensor& b);
// Cross product along an axis of size 3.
Tensor cross(const Tensor& a, const Tensor& b, int64_t axis = -1);

}  // namespace binade
