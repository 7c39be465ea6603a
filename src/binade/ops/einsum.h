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
// "bij,bjk->bik": one or two operands, each letter once per operand, the result spelled out.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands);

}  // namespace binade
