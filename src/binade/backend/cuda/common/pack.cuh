#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "binade/backend/cast.h"
#include "binade/tensor/dtype.h"

// Several contiguous elements moved by one instruction.
namespace binade::backend::cuda {

// The compute type of sums and functions of T.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

// N contiguous elements; up to 16 bytes move at once.
template <class T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Pack {
  T values[N];

  BINADE_HD T& operator[](int i) { return values[i]; }
  BINADE_HD const T& operator[](int i) const { return values[i]; }
};

template <class T, int N>
__device__ inline Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

// As one word where there is one: elements that are computed one by one would be stored so, too.
template <class T, int N>
__device__ inline void store_pack(T* to, const Pack<T, N>& pack) {
  if constexpr (sizeof(pack) == 4) {
    *reinterpret_cast<uint32_t*>(to) = std::bit_cast<uint32_t>(pack);
  } else if constexpr (sizeof(pack) == 8) {
    *reinterpret_cast<uint64_t*>(to) = std::bit_cast<uint64_t>(pack);
  } else {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  }
}

// Whether an address may be read in packs of N elements of T.
template <class T, int N>
inline bool packs_fit(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % alignof(Pack<T, N>) == 0;
}

}  // namespace binade::backend::cuda
