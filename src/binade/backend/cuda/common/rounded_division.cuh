#pragma once

#include <cuda_runtime.h>

// Quotients and square roots with the bits of `/` and sqrtf(), which are correctly rounded, but
// without their branches for results and remainders that are subnormal or overflow. Callers check
// the range of their operands first.
namespace binade::backend::cuda {

// Quotients by a divisor. Correctly rounded if the divisor is within 2^-76 and 2^100 and the
// quotient's magnitude at least 2^-23, or the divisor within 2^-60 and 2^40 and the dividend's
// magnitude within 2^-80 and 2^60.
struct Divisor {
  float value, inverse;

  static __device__ Divisor of(float value) {
    float near;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(value));
    return {value, fmaf(fmaf(-value, near, 1), near, near)};
  }

  __device__ float quotient(float x) const {
    float q = x * inverse;
    q = fmaf(fmaf(-q, value, x), inverse, q);
    return fmaf(fmaf(-q, value, x), inverse, q);
  }
};

// The square root of x, correctly rounded for x within 2^-100 and 2^127.
__device__ inline float square_root(float x) {
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  const float root = x * inverse;
  return fmaf(fmaf(-root, root, x), inverse * 0.5f, root);
}

}  // namespace binade::backend::cuda
