#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade {

// Sums over axes_a of a paired with axes_b of b.
Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<int64_t>& axes_a,
                 const std::vector<int64_t>& axes_b);
// Sums of products over named axes: "bij,bjk->bik". A letter twice in one operand takes its
// diagonal. "..." stands for any number of axes. Axes of size 1 broadcast. Without "->" the result
// has the axes of "...", then the letters that occur once, in alphabetical order. Several operands
// are multiplied from left to right.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands);

}  // namespace binade
