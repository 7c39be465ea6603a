#pragma once

#include <span>
#include <utility>

#include "binade/tensor/tensor.h"

namespace binade {

// Cosines and sines of the rotary embedding: f32 [positions, dim / 2] each.
std::pair<Tensor, Tensor> rope_tables(int64_t positions, int64_t dim, double theta = 10000,
                                      Device device = Device::cpu());
// Cosines and sines for given angles per position, one for each pair of channels.
std::pair<Tensor, Tensor> rope_tables(int64_t positions, std::span<const float> frequencies,
                                      Device device = Device::cpu());
// Rotates the first `rotated` heads (all by default) of x [batch, tokens, heads, dim] by their
// position, starting at `start`, in the rotate-half form; other heads pass through.
Tensor rope(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start = 0,
            int64_t rotated = -1);
// rope() in x's own memory. x must be the result of an op that does not need it again, such as a
// linear layer's.
Tensor rope_(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start = 0,
             int64_t rotated = -1);
Tensor rope_composite(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start = 0,
                      int64_t rotated = -1);

}  // namespace binade
