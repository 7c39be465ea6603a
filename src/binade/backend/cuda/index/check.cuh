#pragma once

#include <cstdint>
#include <cstdio>

namespace binade::backend::cuda {

// An index outside [0, size) stops the kernel: the host, which would have to wait for the indices,
// does not look at them. The next call to the GPU then fails.
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
