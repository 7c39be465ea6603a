#include "binade/backend/cuda/index/sort.h"

#include <cub/device/device_radix_sort.cuh>

#include "binade/backend/cuda/common/dynamic_operand.cuh"

namespace binade::backend::cuda {

template <class Key>
void sort_pairs(const Key* keys, Key* sorted_keys, const Key* values, Key* sorted_values,
                int64_t count, int bits) {
  size_t bytes = 0;
  const auto sort = [&](void* scratch) {
    check(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values,
                                          count, 0, bits, stream()),
          "cub::DeviceRadixSort");
  };
  sort(nullptr);  // only computes `bytes`
  const Tensor scratch = workspace({static_cast<int64_t>(bytes) + 1}, DType::u8);
  sort(scratch.raw_data());
}

template void sort_pairs(const uint32_t*, uint32_t*, const uint32_t*, uint32_t*, int64_t, int);
template void sort_pairs(const uint64_t*, uint64_t*, const uint64_t*, uint64_t*, int64_t, int);

}  // namespace binade::backend::cuda
