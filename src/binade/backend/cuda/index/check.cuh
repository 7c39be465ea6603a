#pragma once

#include <cstdint>
#include <cstdio>

namespace binade::backend::cuda {

// Stops the kernel at an index outside [0, size); the next call to the GPU then fails. The host
// does not check indices of a GPU: it would have to wait for them.
__device__ __noinline__ inline void refuse_index(int64_t index, int64_t size) {
  printf("index out of range: expected 0 to %lld, found %lld\n", static_cast<long long>(size - 1),
         static_cast<long long>(index));
  __trap();
}

__device__ inline int64_t checked_index(int64_t index, int64_t size) {
  if (index < 0 || index >= size) refuse_index(index, size);
  return index;
}

}  // namespace binade::backend::cuda
