#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// Matmuls accumulate in f32 (f64 for f64). Both operands have one dtype, which is the result's.

// Ranks of at least 1; batch axes broadcast. A vector is a row on the left and a column on the
// right.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor mm(const Tensor& a, const Tensor& b);   // [m, k] x [k, n]
Tensor bmm(const Tensor& a, const Tensor& b);  // [batch, m, k] x [batch, k, n]
Tensor mv(const Tensor& a, const Tensor& b);   // [m, k] x [k]
Tensor dot(const Tensor& a, const Tensor& b);  // [k] x [k]
// beta * c + alpha * a b, c broadcast to the shape of a b.
Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta = 1,
               double alpha = 1);

}  // namespace binade
