#pragma once

#include <array>

#include "binade/tensor/tensor.h"

namespace binade::optim {

// x = a x + (b (x x^T) + c (x x^T)^2) x, repeated.
struct NewtonSchulz {
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};
  int steps = 5;
  double eps = 1e-7;  // smallest norm that x is divided by first
};

// About U V^T for each matrix x = U S V^T of [rows, columns] or [batch, rows, columns], in x's
// type, bf16 or f32. On CPUs matmuls and sums are rounded one by one; GPUs round each sum of a
// matmul once.
Tensor orthogonalized(const Tensor& x, const NewtonSchulz& options);

// The operations of this for one matrix, up to a factor: what its owner has to do.
double newton_schulz_cost(int64_t rows, int64_t columns);

}  // namespace binade::optim
