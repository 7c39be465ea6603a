#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend::cpu {

void sort(TensorView x, bool descending, TensorView index);

}  // namespace binade::backend::cpu
