#pragma once

#include <cstdint>

#include "binade/base/host_device.h"
#include "binade/tensor/tensor.h"

// Hashes of tensors that add up: the hash of a whole is the sum of the hashes of its parts, modulo
// 2^64, whatever the parts and their order. Threads, GPU blocks and ranks hash what they have.
namespace binade::backend {

// An element's share of the sum, by its bits, the tensor's key and its index in the whole tensor:
// SplitMix64's output function, so that neither swapped nor doubly changed elements cancel.
BINADE_HD inline uint64_t hash_element(uint64_t bits, uint64_t key, uint64_t index) {
  uint64_t x = bits + key + (index + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct HashKernels {
  // sum (u64 as i64 [1], on x's device) += the hash of dense x, whose first element has the index
  // `begin` in the whole tensor.
  void (*add)(TensorView x, uint64_t key, int64_t begin, TensorView sum);
};

// The kernels of a device; those of the meta device do nothing.
const HashKernels& hash_kernels(Device device);

namespace cpu {
extern const HashKernels hash_kernels;
}
namespace cuda {
extern const HashKernels hash_kernels;
}

}  // namespace binade::backend
