#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "binade/backend/cuda/common/magnitude.cuh"
#include "binade/formats/number.h"

// Encodes floats as FP8: round to nearest even, saturating finite values. Others must be seen: NaN
// keeps its sign and payload, an infinity stays one in e5m2 and becomes NaN in e4m3. And decodes
// them.
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

// The code of an x that is not finite.
template <class Q>
__device__ inline uint8_t encode_special(float x) {
  if constexpr (std::is_same_v<Q, e4m3>) {
    return static_cast<uint8_t>(formats::encode<formats::spec::e4m3>(x));
  } else {
    return static_cast<uint8_t>(formats::encode<formats::spec::e5m2>(x));
  }
}

__device__ inline bool is_special(float x) { return !(fabsf(x) < INFINITY); }

// Two numbers, in the low and the high byte. An infinity saturates; the bits of a NaN depend on the
// GPU.
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

// Two e4m3 numbers, in the low and the high byte of 16 bits. NaN stays NaN.
__device__ inline void decode_two(uint32_t bytes, float& low, float& high) {
#if __CUDA_ARCH__ >= 890
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(bytes)));
  low = f16::from_bits(static_cast<uint16_t>(halves));
  high = f16::from_bits(static_cast<uint16_t>(halves >> 16));
#else
  low = formats::decode<formats::spec::e4m3>(bytes & 0xff);
  high = formats::decode<formats::spec::e4m3>(bytes >> 8 & 0xff);
#endif
}

// Stores N values * scale as adjacent bytes: 1, 4 or 8.
template <class Q, int N>
__device__ inline void store_encoded(const float (&values)[N], float scale, uint8_t* to) {
  if constexpr (N == 1) {
    *to = is_special(values[0]) ? encode_special<Q>(values[0]) : encode_one<Q>(values[0] * scale);
  } else {
    uint32_t words[N / 4];
    bool special = false;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const float* v = values + i;
      special |= is_special(v[0]) || is_special(v[1]) || is_special(v[2]) || is_special(v[3]);
      words[i / 4] = encode_two<Q>(v[0] * scale, v[1] * scale) |
                     encode_two<Q>(v[2] * scale, v[3] * scale) << 16;
    }
    if (N == 8 && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
      *reinterpret_cast<uint2*>(to) = {words[0], words[N / 4 - 1]};
    } else {
#pragma unroll
      for (int i = 0; i < N / 4; ++i) reinterpret_cast<uint32_t*>(to)[i] = words[i];
    }
    if (!special) return;
#pragma unroll 1
    for (int i = 0; i < N; ++i) {
      float value = values[0];
#pragma unroll
      for (int j = 1; j < N; ++j) value = i == j ? values[j] : value;
      if (is_special(value)) to[i] = encode_special<Q>(value);
    }
  }
}

// Replaces the bytes of NaNs and infinities among 16 encoded values: the instruction saturates
// infinities, and it and the multiplication before it lose a NaN's sign and payload. Not inlined,
// since it is seldom called and would take registers.
struct SixteenFloats {
  float values[16];
};
template <class Q>
__device__ __noinline__ uint4 with_specials(SixteenFloats x, uint4 encoded) {
  uint32_t words[4] = {encoded.x, encoded.y, encoded.z, encoded.w};
#pragma unroll 1
  for (int i = 0; i < 16; ++i) {
    float value = x.values[0];  // of a variable index, without local memory
#pragma unroll
    for (int j = 1; j < 16; ++j) value = i == j ? x.values[j] : value;
    if (!is_special(value)) continue;
    const int shift = i % 4 * 8;
    const uint32_t byte = uint32_t{encode_special<Q>(value)} << shift;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (i / 4 == j) words[j] = (words[j] & ~(0xffu << shift)) | byte;
  }
  return {words[0], words[1], words[2], words[3]};
}

// Encodes 16 values * scale and raises `largest` to the bits of their magnitudes.
template <class Q>
__device__ inline uint4 encode_chunk(const float (&values)[16], float scale, uint32_t& largest) {
  uint32_t words[4], magnitude = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) magnitude = max(magnitude, magnitude_bits(values[i]));
  largest = max(largest, magnitude);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* v = values + 4 * i;
    words[i] = encode_two<Q>(v[0] * scale, v[1] * scale) | encode_two<Q>(v[2] * scale, v[3] * scale)
                                                               << 16;
  }
  const uint4 encoded{words[0], words[1], words[2], words[3]};
  if (magnitude < 0x7f800000u) return encoded;
  SixteenFloats copy;
#pragma unroll
  for (int i = 0; i < 16; ++i) copy.values[i] = values[i];
  return with_specials<Q>(copy, encoded);
}

}  // namespace binade::backend::cuda
