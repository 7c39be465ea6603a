#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "binade/formats/number.h"

namespace binade::backend::cuda {

// Magnitudes order like these bits, with NaN above all others.
__device__ inline uint32_t magnitude_bits(float x) { return formats::float_bits(x) & 0x7fffffffu; }

// The smallest and the largest magnitude of many numbers.
struct MagnitudeRange {
  uint32_t least = ~0u, most = 0;  // magnitude_bits

  __device__ void add(float x) {
    least = min(least, magnitude_bits(x));
    most = max(most, magnitude_bits(x));
  }
  __device__ bool is_within(float from, float to) const {
    return least >= magnitude_bits(from) && most <= magnitude_bits(to);
  }
};

}  // namespace binade::backend::cuda
