#pragma once

#include <span>

#include "binade/tensor/tensor.h"

// Many scalars at once, for backend/exchange.h.
namespace binade::backend::cuda {

void collect(std::span<const TensorView> scalars, TensorView numbers);
void distribute(TensorView numbers, std::span<const TensorView> scalars);

}  // namespace binade::backend::cuda
