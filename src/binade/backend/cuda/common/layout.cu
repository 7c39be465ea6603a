#include "binade/backend/cpu/rows/strided.h"
#include "binade/backend/cuda/common/layout.cuh"

namespace binade::backend::cuda {

void simplify(std::initializer_list<TensorView*> views) {
  cpu::sort_axes(views);
  cpu::merge_axes(views);
}

}  // namespace binade::backend::cuda
