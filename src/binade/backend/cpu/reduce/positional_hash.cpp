#include "binade/backend/positional_hash.h"

#include <atomic>

#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

constexpr int64_t hash_grain = 16384;

// `Bits` is the unsigned type of an element's size.
template <class Bits>
uint64_t sum_of(TensorView x, uint64_t key, int64_t begin) {
  const Bits* const elements = x.as<const Bits>();
  std::atomic<uint64_t> sum = 0;
  parallel_for(x.numel(), hash_grain, [&](int64_t first, int64_t last) {
    uint64_t part = 0;
    for (int64_t i = first; i < last; ++i)
      part += hash_element(elements[i], key, static_cast<uint64_t>(begin + i));
    sum += part;
  });
  return sum;
}

uint64_t hash(TensorView x, uint64_t key, int64_t begin) {
  switch (size_of(x.dtype)) {
    case 1:
      return sum_of<uint8_t>(x, key, begin);
    case 2:
      return sum_of<uint16_t>(x, key, begin);
    case 4:
      return sum_of<uint32_t>(x, key, begin);
    default:
      return sum_of<uint64_t>(x, key, begin);
  }
}

void add(TensorView x, uint64_t key, int64_t begin, TensorView sum) {
  *sum.as<uint64_t>() += hash(x, key, begin);
}

}  // namespace

const HashKernels hash_kernels{.add = add};

}  // namespace binade::backend::cpu
