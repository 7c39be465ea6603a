#include "binade/backend/positional_hash.h"

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/launch.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int hash_threads = 256;

// Integer sums have the same bits in any order, so blocks may add by atomics.
template <class Bits>
__global__ void hash_rows_kernel(const Bits* x, int64_t count, uint64_t key, uint64_t begin,
                                 unsigned long long* sum) {
  __shared__ unsigned long long scratch[warp_size];
  unsigned long long part = 0;
  for (int64_t i = first_item(); i < count; i += item_step())
    part += hash_element(x[i], key, begin + static_cast<uint64_t>(i));
  part = reduce_block(part, Sum(), 0ull, scratch);
  if (threadIdx.x == 0) atomicAdd(sum, part);
}

template <class Bits>
void launch_hash(TensorView x, uint64_t key, int64_t begin, TensorView sum) {
  launch(hash_rows_kernel<Bits>, grid_for(x.numel(), hash_threads), hash_threads, 0,
         x.as<const Bits>(), x.numel(), key, static_cast<uint64_t>(begin),
         sum.as<unsigned long long>());
}

void add(TensorView x, uint64_t key, int64_t begin, TensorView sum) {
  switch (size_of(x.dtype)) {
    case 1:
      return launch_hash<uint8_t>(x, key, begin, sum);
    case 2:
      return launch_hash<uint16_t>(x, key, begin, sum);
    case 4:
      return launch_hash<uint32_t>(x, key, begin, sum);
    default:
      return launch_hash<uint64_t>(x, key, begin, sum);
  }
}

}  // namespace

const HashKernels hash_kernels{.add = add};

}  // namespace binade::backend::cuda
