#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "binade/formats/number.h"

// Encodes floats as FP8: round to nearest even, saturating; NaN keeps its sign and payload.
namespace binade::backend::cuda {

// Q is e4m3 or e5m2.
template <class Q>
__device__ inline uint8_t encode_one(float x) {
  constexpr auto nearest = formats::Rounding::nearest_even;
  constexpr auto saturate = formats::Overflow::saturate;
  if constexpr (std::is_same_v<Q, e4m3>) {
    return static_cast<uint8_t>(formats::encode<formats::spec::e4m3>(x, nearest, saturate));
  } else {
    return static_cast<uint8_t>(formats::encode<formats::spec::e5m2>(x, nearest, saturate));
  }
}

// Two numbers, in the low and the high byte. The bits of a NaN depend on the GPU.
template <class Q>
__device__ inline uint32_t encode_two(float low, float high) {
#if __CUDA_ARCH__ >= 890
  uint16_t bytes;
  if constexpr (std::is_same_v<Q, e4m3>) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bytes) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bytes) : "f"(high), "f"(low));
  }
  return bytes;
#else
  return encode_one<Q>(low) | uint32_t{encode_one<Q>(high)} << 8;
#endif
}

// Encodes 16 values * scale.
template <class Q>
__device__ inline uint4 encode_chunk(const float (&values)[16], float scale) {
  bool nan = false;
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* v = values + 4 * i;
    nan |= v[0] != v[0] || v[1] != v[1] || v[2] != v[2] || v[3] != v[3];
    words[i] = encode_two<Q>(v[0] * scale, v[1] * scale) | encode_two<Q>(v[2] * scale, v[3] * scale)
                                                               << 16;
  }
  if (nan) {  // the instruction and the multiplication before it lose the sign and payload
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float x = values[i];
      if (x == x) continue;
      __builtin_assume((formats::float_bits(x) & 0x7fffffffu) > 0x7f800000u);
      const int shift = i % 4 * 8;
      words[i / 4] = (words[i / 4] & ~(0xffu << shift)) | uint32_t{encode_one<Q>(x)} << shift;
    }
  }
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace binade::backend::cuda
