#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Quotients and roots that are rounded like those of `/` and sqrtf(), without the branches for
// operands whose remainders are subnormal or overflow: callers ask for the range first.
namespace binade::backend::cuda {

// The smallest and the largest magnitude of many numbers; NaN is larger than all.
struct MagnitudeRange {
  uint32_t least = ~0u, most = 0;  // bits, which have the order of the numbers

  __device__ void add(float x) {
    const uint32_t bits = __float_as_uint(x) & 0x7fffffff;
    least = min(least, bits);
    most = max(most, bits);
  }
  __device__ bool is_within(float from, float to) const {
    return least >= __float_as_uint(from) && most <= __float_as_uint(to);
  }
};

// Quotients by a divisor. Exact if the divisor is within 2^-76 and 2^100 and the quotient's
// magnitude at least 2^-23, or the divisor within 2^-60 and 2^40 and the dividend's magnitude
// within 2^-80 and 2^60.
struct ExactDivisor {
  float divisor, inverse;

  static __device__ ExactDivisor of(float divisor) {
    float near;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(divisor));
    return {divisor, fmaf(fmaf(-divisor, near, 1), near, near)};
  }

  __device__ float operator()(float x) const {
    float q = x * inverse;
    q = fmaf(fmaf(-q, divisor, x), inverse, q);
    return fmaf(fmaf(-q, divisor, x), inverse, q);
  }
};

// sqrtf(x) for x within 2^-100 and 2^127.
__device__ inline float exact_root(float x) {
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  const float root = x * inverse;
  return fmaf(fmaf(-root, root, x), inverse * 0.5f, root);
}

}  // namespace binade::backend::cuda
