#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// A copy with memory of its own, and x on another device (x itself if it is there). Both are
// differentiable.
Tensor clone(const Tensor& x);
Tensor to(const Tensor& x, Device device);

// In-place writes; autograd treats them as a change of the data. Outside of NoGrad they are refused
// for results of recorded ops and for leaves that require a gradient.
void fill_(const Tensor& x, double value);
void copy_(const Tensor& x, const Tensor& source);  // converts, broadcasts and crosses devices
void add_(const Tensor& x, const Tensor& other, double alpha = 1);

}  // namespace binade
