#pragma once

#include <optional>
#include <vector>

#include "binade/nn/rope.h"
#include "binade/tensor/tensor.h"

// Llama 3's scaling of rotary frequencies, which GGUF stores as one divisor per frequency.
namespace binade::io::gguf {

// The divisors of `dim` / 2 frequencies.
std::vector<float> llama3_divisors(int64_t dim, double theta, const nn::RopeScaling& scaling);

// The scaling that has these divisors, with the factors 1 and 4 of all published models; none if
// they are others.
std::optional<nn::RopeScaling> llama3_scaling(const Tensor& divisors, int64_t dim, double theta,
                                              int64_t original_context);

}  // namespace binade::io::gguf
