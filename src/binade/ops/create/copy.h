#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// A copy with memory of its own, and x on another device (x itself if it is there). Both are
// differentiable.
Tensor clone(const Tensor& x);
Tensor to(const Tensor& x, Device device);

// Writes into x's memory, which views and other handles of x see. Outside of NoGrad they are part
// of the graph, as in LibTorch: x, the tensor that x is a view of, and other views of that then
// have the gradients of what was written. A backward that needs the old values fails. Refused for
// leaves that require a gradient and their views, for views made under NoGrad, and for expanded
// views. Sources that overlap x are read as they were before.
void fill_(const Tensor& x, double value);
void copy_(const Tensor& x, const Tensor& source);  // converts, broadcasts and crosses devices
void add_(const Tensor& x, const Tensor& other, double alpha = 1);  // broadcasts

}  // namespace binade
